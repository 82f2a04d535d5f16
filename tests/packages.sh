#!/bin/bash
# packages.sh COMMAND:PACKAGE...: installs, with apt, each Debian package whose command is missing; says which, and nothing when none is.
set -euo pipefail
missing=()
for pair; do command -v "${pair%:*}" >/dev/null || missing+=("${pair#*:}"); done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
  { echo "packages.sh: these packages are missing, and only root can install them, with apt: ${missing[*]}" >&2; exit 1; }
echo "installing ${missing[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}" </dev/null >/dev/null
