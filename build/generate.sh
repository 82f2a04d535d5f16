#!/bin/bash
# generate.sh [--check]: writes the files that are made from the code, or fails if one of them is not current.
#
# manifests/crds/ from `mcx crds`; completions, manual pages and reference pages under docs/.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --locked --quiet --bin mcx
mcx=${CARGO_TARGET_DIR:-target}/debug/mcx
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One file per definition: <plural>.yaml
mkdir -p "$work/manifests/crds"
"$mcx" crds >"$work/crds.yaml"
awk -v dir="$work/manifests/crds" '
  function flush() { if (name != "") printf "%s", text > (dir "/" name ".yaml"); text = ""; name = "" }
  /^---$/ { flush(); next }
  { text = text $0 "\n" }
  /^  name: / && name == "" { split($2, part, "."); name = part[1] }
  END { flush() }' "$work/crds.yaml"
[ "$(ls "$work/manifests/crds" | wc -l)" = 3 ] || { echo "generate.sh: mcx crds printed something else than three definitions" >&2; exit 1; }

mkdir -p "$work/docs/completions"
for shell in bash zsh fish; do "$mcx" completions "$shell" >"$work/docs/completions/mcx.$shell"; done
"$mcx" man "$work/docs/man"
"$mcx" reference "$work/docs/reference"

rm "$work/crds.yaml"
stale=0
while read -r file; do
  if [ "${1:-}" = --check ]; then
    diff -u --label "$file (committed)" --label "$file (from the code)" "$file" "$work/$file" 2>&1 || stale=1
  else
    mkdir -p "$(dirname "$file")"
    cmp -s "$work/$file" "$file" || { cp "$work/$file" "$file"; echo "wrote $file"; }
  fi
done < <(cd "$work" && find . -type f -printf '%P\n' | sort)
# a page of a command that is no more
for folder in manifests/crds docs/completions docs/man docs/reference; do
  for file in "$folder"/*; do
    [ -e "$file" ] && [ ! -e "$work/$file" ] || continue
    if [ "${1:-}" = --check ]; then echo "$file is no longer made from the code"; stale=1; else rm "$file"; echo "removed $file"; fi
  done
done
[ $stale = 0 ] || { echo "generate.sh: not current: run make generate" >&2; exit 1; }
