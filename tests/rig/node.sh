#!/bin/bash
# node.sh OP NAME [ARGS]: a node = a booted systemd-nspawn guest, with kubelet and containerd unless BARE=1
#   start [worker|master|none]   BARE=1: systemd only. DISK=1: state on an own ext4 (for crash). NOBOOT=1: no user "boot".
#                                SHUTDOWN_GRACE=30s: the kubelet's shutdownGracePeriod, a third of it for critical pods. Options stick to the node
#   wait [SECONDS]               Ready and reported by this boot; BARE: systemd is running
#   exec CMD... | leader | bootid | load IMAGE.tar
#   reboot [-n]                  orderly, until Ready again; -n: do not wait
#   off  kill  crash  rm         halt in order; power loss; power loss that loses unsynced data (DISK=1); remove for good. The first three: then start
#   hold  unhold                 a rebooting guest stays down until unhold
#   cut  break  mend             API server: packets vanish; connections are reset and refused; well again
#   freeze  thaw                 the whole guest stands still
#   heal                         end of all of these: thawed, mended, not held, started
set -eu; . "$(dirname "$0")/env.sh"
op=${1:?} n=${2:-} D=$NODES/${2:-} X=$NODES/${2:-}/rig; shift; shift || :        # $X is /rig in the guest
pid() { cat "$PID/$n.nspawn" 2>/dev/null; }
leader() { # the guest's pid 1 as the host sees it: nspawn's child that is pid 1 in its own pid namespace
  local s c; s=$(pid) || return 1
  for c in $(cat "/proc/$s/task/$s/children" 2>/dev/null); do [ "$(awk '/^NSpid/{print $NF}' "/proc/$c/status" 2>/dev/null)" = 1 ] && echo "$c" && return; done; return 1; }
# -F and a shell between: nsenter's own fork stops with a child that a shutting-down guest stops, never reaps it, and the guest never ends
inside() { local l; l=$(leader) && nsenter -t "$l" -a -F env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 /bin/sh -c '"$@"; exit $?' sh "$@"; }
bootid() { local l; l=$(leader) && cat "/proc/$l/root/proc/sys/kernel/random/boot_id"; }
ended() { ! alive "$n.super"; }
case $op in start | layer | supervise | rm) ;; *) [ -e "$D/number" ] || { echo "no node '$n'" >&2; exit 1; } ;; esac
bare() { [ -e "$D/bare" ]; }
up() {
  local b; b=$(bootid 2>/dev/null) || return 1
  if bare; then case $(inside systemctl is-system-running 2>/dev/null) in running | degraded) ;; *) return 1 ;; esac
  else [ "$(kubectl get node "$n" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.nodeInfo.bootID}' 2>/dev/null)" = "True $b" ]; fi; }
changed() { local b; b=$(bootid 2>/dev/null) && [ "$b" != "$1" ]; }
relays() {
  alive "$n.api" || { rm -f "$X/api.sock"; start "$n.api" socat "UNIX-LISTEN:$X/api.sock,fork,mode=666,backlog=128" "TCP:127.0.0.1:$API"; }
  bare || alive "$n.kubelet" || start "$n.kubelet" socat "TCP-LISTEN:10250,bind=$NET.$(cat "$D/number"),fork,reuseaddr" "UNIX-CONNECT:$X/kubelet.sock"; }

{ case $op in      # braces and exit: bash reads it all before a supervisor starts, so the file may be edited while one runs
layer)             # what the rig adds to the root filesystem, a lower layer of every node. Never touched while nodes run
  rm -rf "$RIG/layer"; mkdir -p "$RIG/layer"; cp -r --no-preserve=ownership "$HERE/guest/." "$RIG/layer/"; mkdir -p "$RIG"/layer/{rig,opt/rig,usr/local/bin}
  U=$RIG/layer/etc/systemd/system; mkdir -p "$U"/{multi-user,sockets}.target.wants      # what `systemctl enable` would link
  ln -s /usr/lib/systemd/system/chronyd.service ../kubelet.service "$U/multi-user.target.wants/"; ln -s ../rig-api.socket ../rig-kubelet.socket "$U/sockets.target.wants/"
  chmod -R u=rwX,go=rX "$RIG/layer"; cp "$IMAGES"/*.tar "$RIG/layer/opt/rig/"; [ ! -x "$KBIN/kubelet" ] || cp "$KBIN/kubelet" "$RIG/layer/usr/local/bin/" ;;
start)
  ended || { echo "$n runs" >&2; exit 1; }
  claim; mkdir -p "$X" "$LOG" "$PID"; [ -d "$RIG/layer" ] || flock "$RIG/lock" "$0" layer
  if [ ! -e "$D/number" ]; then      # a new node
    exec 9>"$RIG/lock"; flock 9; N=$(($(cat "$RIG/last" 2>/dev/null || echo 0) + 1)); echo $N >"$RIG/last"; exec 9>&-
    [ -z "${BARE:-}" ] || touch "$D/bare"; [ -z "${NOBOOT:-}" ] || touch "$D/noboot"
    [ -z "${SHUTDOWN_GRACE:-}" ] || printf 'shutdownGracePeriod: %s\nshutdownGracePeriodCriticalPods: %ss\n' "$SHUTDOWN_GRACE" $((${SHUTDOWN_GRACE%s} / 3)) >"$X/kubelet.yaml"
    [ -z "${DISK:-}" ] || { truncate -s 2G "$D/disk.img"; mkfs.ext4 -q "$D/disk.img"; }
    if ! bare; then
      leaf "node-$n" "/O=system:nodes/CN=system:node:$n" clientAuth; kubeconfig "node-$n" "$X/kubeconfig" https://127.0.0.1:6443; cp "$PKI/ca.crt" "$X/"
      printf 'NODE_NAME=%s\nNODE_IP=10.99.%d.%d\n' "$n" $((N / 250)) $((N % 250 + 1)) >"$X/node.env"; echo "$NET.$N $n" >>"$RIG/hosts"
      # NodeRestriction forbids a kubelet to give itself roles: the Node exists before it, as admin made it (none: the kubelet makes it)
      T="" K=node-role.kubernetes.io; case ${1:-worker} in none) R= ;; worker) R="$K/worker: ''" ;;
        master) R="$K/master: '', $K/control-plane: ''" T="{key: $K/control-plane, effect: NoSchedule}" ;; *) echo "role $1?" >&2; exit 1 ;; esac
      [ -z "$R" ] || kubectl create -f - >/dev/null <<Y
apiVersion: v1
kind: Node
metadata: {name: $n, labels: {$R}}
spec: {taints: [$T]}
Y
    fi
    echo $N >"$D/number"; fi
  relays; rm -f "$X/hold"
  start "$n.super" unshare -m --propagation slave bash "$HERE/node.sh" supervise "$n" ;;
supervise)         # in its own mount namespace: its mounts end with it
  let_go; mkdir -p /run/systemd/nspawn; mount -t tmpfs rig-nspawn /run/systemd/nspawn
  while :; do
    S=$D/state; [ ! -e "$D/disk.img" ] || { mkdir -p "$S"; mount -o loop,commit=300 "$D/disk.img" "$S"; }
    mkdir -p "$S"/{up,work,containerd} "$D/root"
    mount -t overlay "$TAG-$n" -o "lowerdir=$RIG/layer:$ROOTFS,upperdir=$S/up,workdir=$S/work" "$D/root"
    [ ! -e "$D/noboot" ] || [ ! -d "$D/root/home/boot" ] || chroot "$D/root" userdel -r boot 2>/dev/null || :
    [ ! -e "$D/disk.img" ] || sync -f "$S"
    for h in $(cgs); do mkdir -p "$h/$TAG-$n"; done
    C=/sys/fs/cgroup/cpuset; [ ! -d $C ] || for f in cpus mems; do cat $C/cpuset.$f >"$C/$TAG-$n/cpuset.$f"; done      # v1 only
    [ $CG2 != /sys/fs/cgroup ] || for c in cpu cpuset memory pids io; do echo "+$c" >$CG2/cgroup.subtree_control || :; done      # v2 only, never run
    (for h in $(cgs); do echo $BASHPID >"$h/$TAG-$n/cgroup.procs"; done      # --keep-unit takes the caller's cgroup: give it its own
      exec env -u MCX_RIG_OF systemd-nspawn -q --register=no --keep-unit --private-network -D "$D/root" -M "$TAG-$n" --hostname="$n" \
        --bind="$X:/rig" --bind="$S/containerd:/var/lib/containerd" --bind-ro="$D/root/usr:/usr" --tmpfs=/var/lib/cni \
        --bind=/dev/kmsg --capability=CAP_SYSLOG --system-call-filter=@keyring --boot --console=pipe) & echo $! >"$PID/$n.nspawn"
    rc=0; wait $! || rc=$?; echo "$(date +%T.%3N) nspawn ended with $rc"
    cg_end "$TAG-$n"; umount "$D/root"; [ ! -e "$D/disk.img" ] || umount "$S"
    [ $rc = 133 ] || break                                                   # 133: reboot
    while [ -e "$X/hold" ]; do sleep .1; done
  done; rm -f "$PID/$n.nspawn" ;;
wait) poll "${1:-60}" up || { echo "$n is not up" >&2; exit 1; }
  if [ -e "$D/disk.img" ] && ! grep -qs "$(bootid)" "$D/synced"; then inside sync -f / /var/lib/containerd; bootid >"$D/synced"; fi ;;     # once per boot
leader) leader ;;
bootid) bootid ;;
exec) inside "$@" ;;
reboot) B=$(bootid); inside systemctl reboot; [ "${1:-}" = -n ] || poll 60 changed "$B"; [ "${1:-}" = -n ] || "$0" wait "$n" ;;
off) kill -RTMIN+4 "$(leader)"; poll 100 ended ;;
kill) kill -9 "$(leader)"; poll 20 ended ;;
crash)             # only what reached the disk image at this instant survives
  [ -e "$D/disk.img" ] || { echo "$n has no own disk: DISK=1" >&2; exit 1; }
  "$0" freeze "$n"; cp --sparse=always "$D/disk.img" "$D/crash.img"; "$0" kill "$n"; mv "$D/crash.img" "$D/disk.img" ;;
freeze) echo 1 >"$CG2/$TAG-$n/payload/cgroup.freeze"; poll 10 grep -q '^frozen 1' "$CG2/$TAG-$n/payload/cgroup.events" ;;
thaw) echo 0 >"$CG2/$TAG-$n/payload/cgroup.freeze" ;;
heal) "$0" unhold "$n"; [ ! -e "$CG2/$TAG-$n/payload/cgroup.freeze" ] || "$0" thaw "$n"
  if ended; then "$0" start "$n"; else "$0" mend "$n"; fi ;;
hold) touch "$X/hold" ;;
unhold) rm -f "$X/hold" ;;
cut) group "$n.api" STOP ;;
break) group "$n.api" KILL; rm -f "$PID/$n.api" "$X/api.sock" ;;
mend) group "$n.api" CONT; relays ;;
load) cp "$1" "$X/load.tar"; inside ctr -n k8s.io images import /rig/load.tar; rm "$X/load.tar"; [ ! -e "$D/disk.img" ] || inside sync -f /var/lib/containerd ;;
rm) ended || { group "$n.super" KILL; cg_end "$TAG-$n"; }
  group "$n.api" KILL; group "$n.kubelet" KILL; bare || { kubectl delete node "$n" --ignore-not-found >/dev/null
    sed "/ $n\$/d" "$RIG/hosts" >"$RIG/hosts.new"; cat "$RIG/hosts.new" >"$RIG/hosts"; }      # same inode: it is bind-mounted
  chattr -R -ai "$D/state" 2>/dev/null || :; rm -rf "$D" "$PID/$n".* ;;
*) echo "unknown operation $op" >&2; exit 2 ;;
esac; exit; }
