# The image of mcx with a container engine; `make image` makes the same without one.
# One static binary and nothing else: no shell, no CA store (the API server's CA comes with the ServiceAccount), no users.
FROM rust:1.95.0-bookworm AS build
WORKDIR /src
COPY . .
RUN build/static.sh release >/binary && install -m 755 "$(cat /binary)" /mcx

FROM scratch
COPY --from=build /mcx /mcx
ENV PATH=/
ENTRYPOINT ["/mcx"]
