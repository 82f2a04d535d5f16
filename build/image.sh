#!/bin/bash
# image.sh BINARY OUT.tar NAME:TAG: the image of mcx as an archive, without a container engine.
#
# One layer with the static binary as /mcx, as in the Dockerfile. The archive is an OCI layout (`ctr images import`,
# `skopeo copy oci-archive:`) and has what `docker load` reads besides. Equal binaries give equal archives.
set -euo pipefail
[ $# = 3 ] || { echo "usage: image.sh BINARY OUT.tar NAME:TAG" >&2; exit 2; }
binary=$1 out=$2 name=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $(head -c 20 "$binary" | od -An -tx1 -j18 -N2 | tr -d ' ') in
3e00) arch=amd64 ;;
b700) arch=arm64 ;;
*) echo "$binary: neither an x86-64 nor an aarch64 ELF file" >&2; exit 1 ;;
esac
# An interpreter would be looked for in an image that has none.
! readelf -lW "$binary" 2>/dev/null | grep -q 'INTERP' || { echo "$binary is not static: build with -C target-feature=+crt-static" >&2; exit 1; }

pack() { tar --owner 0 --group 0 --numeric-owner --sort name --mtime @0 --format ustar "$@"; }
size() { stat -c %s "$1"; }
# blob FILE: moves FILE to its place in the layout and prints its digest
blob() { local d; d=$(sha256sum "$1" | cut -d' ' -f1); mv "$1" "$work/oci/blobs/sha256/$d"; echo "$d"; }

mkdir -p "$work/root" "$work/oci/blobs/sha256"
install -m 755 "$binary" "$work/root/mcx"
pack -C "$work/root" -cf "$work/layer.tar" mcx
layer_size=$(size "$work/layer.tar")
layer=$(blob "$work/layer.tar")

cat >"$work/config.json" <<J
{"architecture":"$arch","os":"linux","config":{"Entrypoint":["/mcx"],"Env":["PATH=/"],"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]},"history":[{"created_by":"build/image.sh"}]}
J
config_size=$(size "$work/config.json")
config=$(blob "$work/config.json")

cat >"$work/image.json" <<J
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$config_size},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:$layer","size":$layer_size}]}
J
image_size=$(size "$work/image.json")
image=$(blob "$work/image.json")

cat >"$work/oci/index.json" <<J
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$image","size":$image_size,"platform":{"architecture":"$arch","os":"linux"},"annotations":{"io.containerd.image.name":"$name","org.opencontainers.image.ref.name":"${name##*:}"}}]}
J
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/oci/oci-layout"
echo "[{\"Config\":\"blobs/sha256/$config\",\"RepoTags\":[\"$name\"],\"Layers\":[\"blobs/sha256/$layer\"]}]" >"$work/oci/manifest.json"

mkdir -p "$(dirname "$out")"
pack -C "$work/oci" -cf "$out.new" oci-layout index.json manifest.json blobs
mv "$out.new" "$out"
