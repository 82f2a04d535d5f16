#!/bin/bash
# power.sh [WORD...]: the tests of power cuts (tests/power_cuts.rs) whose names contain a WORD, or all; a sample of the cuts, or all with
# MCX_SOAK=1, fewer with MCX_SOAK=5. Installs the packages that they need. They change nothing outside /dev/shm and leave nothing mounted.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "power.sh: root is needed: file systems are mounted" >&2; exit 1; }
for device in /dev/fuse /dev/loop-control; do
  [ -e $device ] || { echo "power.sh: skipped: this machine has no $device (modprobe fuse loop)"; exit 0; }
done
tests/packages.sh cc:gcc mke2fs:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs nbdfuse:libnbd-bin fusermount3:fuse3 losetup:mount setpriv:util-linux systemctl:systemd
exec cargo test --locked --test power_cuts -- --ignored --nocapture "$@"
