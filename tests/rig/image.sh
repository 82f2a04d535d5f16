#!/bin/bash
# image.sh: builds mcx (static, profile ci), packs it under the name that the manifests use, and prints the archive's path.
# Equal binaries are packed once.
set -euo pipefail
REPO=$(cd "$(dirname "$0")/../.." && pwd); cd "$REPO"
binary=$(build/static.sh "${MCX_PROFILE:-ci}")
version=$(sed -n '/^\[package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
image=${CARGO_TARGET_DIR:-$REPO/target}/image/mcx-$version-$(sha256sum "$binary" | cut -c1-12).tar
[ -e "$image" ] || build/image.sh "$binary" "$image" "registry.local/mcx:$version" >&2
echo "$image"
