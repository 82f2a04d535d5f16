#!/bin/bash
# vm.sh [WORD...]: the tests of power cuts of a virtual machine (tests/power_vm.rs) whose names contain a WORD, or all; a few cuts, or 70 with
# MCX_SOAK=1. Installs the packages that they need, and keeps a guest kernel and root beside the rig's things (MCX_RIG_CACHE). What it starts
# ends with it, and nothing is left mounted.
set -euo pipefail; umask 022
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "vm.sh: root is needed: file systems are mounted" >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || { echo "vm.sh: skipped: the guest is an x86-64 machine"; exit 0; }
[ -e /dev/loop-control ] || { echo "vm.sh: skipped: this machine has no /dev/loop-control (modprobe loop)"; exit 0; }
# There may be a /dev/kvm on which no kernel runs that was not made for it: it needs the processor's help.
accelerator=tcg
if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then accelerator=kvm; fi
tests/packages.sh qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio modprobe:kmod mke2fs:e2fsprogs mkfs.xfs:xfsprogs \
  mkfs.btrfs:btrfs-progs losetup:mount setpriv:util-linux flock:util-linux systemctl:systemd

# The root is that of the rig's nodes, and is copied; the kernel is unpacked and not installed. Whoever comes second waits.
cache=${MCX_RIG_CACHE:-$HOME/.cache/mcx-rig}
# shellcheck source=tests/rig/env.sh
root=$(. tests/rig/env.sh && echo "$ROOTFS")
mkdir -p "$cache"; exec 9>"$cache/lock"; flock 9
if [ ! -d "$root" ]; then
  tests/rig/build.sh packages
  echo "making the guest's root (1 minute)"; rm -rf "$root.new"; tests/rig/rootfs.sh "$root.new"; mv "$root.new" "$root"
fi
vm=$cache/vm-$(sha256sum "$0" | cut -c1-12)
if [ ! -d "$vm" ]; then
  echo "making the guest's kernel and initrd"
  work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; chmod 755 "$work"; i=$work/initrd
  package() { apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image-6/ { print $2; exit }'; }
  kernel=$(package); [ -n "$kernel" ] || { apt-get update -qq; kernel=$(package); }
  (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$kernel" && dpkg -x ./*.deb kernel)
  version=$(basename "$work"/kernel/lib/modules/*)
  depmod -b "$work/kernel" "$version"
  mkdir -p "$i"/{bin,dev,proc,sys,root,modules}
  cp "$(command -v busybox)" "$i/bin/busybox"; ln -s busybox "$i/bin/sh"
  # For each file system, what has to be loaded, in order.
  for fs in ext4 xfs btrfs; do
    for module in virtio_pci virtio_blk virtio_net "$fs"; do modprobe -d "$work/kernel" -S "$version" --show-depends "$module"; done |
      awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
        cp "$file" "$i/modules/"; echo "/modules/$(basename "$file")"; done >"$i/modules/$fs"
  done
  # The kernel hands words of its command line on as variables: the file system, its options.
  cat >"$i/init" <<'INIT'
#!/bin/sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev; $b mount -t proc proc /proc; $b mount -t sysfs sys /sys
while read -r module; do $b insmod "$module"; done <"/modules/$guest_fs"
$b ip link set eth0 up; $b ip addr add 10.0.2.15/24 dev eth0; $b ip route add default via 10.0.2.2
$b mount -t "$guest_fs" -o "$guest_options" /dev/vda /root || { echo "the root cannot be mounted"; $b poweroff -f; }
$b mount --move /dev /root/dev; $b umount /proc /sys
exec $b switch_root /root /lib/systemd/systemd
INIT
  chmod 755 "$i/init"; rm -rf "$vm.new"; mkdir "$vm.new"
  (cd "$i" && find . | cpio --quiet -o -H newc) >"$vm.new/initrd"
  cp "$work"/kernel/boot/vmlinuz-* "$vm.new/vmlinuz"; mv "$vm.new" "$vm"
fi
flock -u 9
MCX_BINARY=${MCX_BINARY:-$(build/static.sh ci)}
export MCX_BINARY MCX_VM=$vm MCX_VM_ROOT=$root MCX_VM_ACCEL=${MCX_VM_ACCEL:-$accelerator}
echo "the guest runs by $MCX_VM_ACCEL"
exec cargo test --locked --test power_vm -- --ignored --nocapture "$@"
