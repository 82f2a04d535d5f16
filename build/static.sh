#!/bin/bash
# static.sh PROFILE: builds the static mcx (profiles: release, ci; see Cargo.toml) and prints the path of the binary.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${1:?profile: release or ci}
target=$(uname -m)-unknown-linux-gnu
# A static binary finds the libc function for random numbers only if told at build time; without it, it would open
# /dev/urandom, which a root without /dev lacks. `--target` keeps the flags away from build scripts and macros.
# Relative relocations are packed: 0.4 MB less. glibc reads them from 2.36 on, which is that of the machine it is built on.
export RUSTFLAGS='-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs --cfg getrandom_backend="linux_getrandom"'
cargo build --locked --profile "$profile" --target "$target" --bin mcx >&2
echo "${CARGO_TARGET_DIR:-$PWD/target}/$target/$profile/mcx"
