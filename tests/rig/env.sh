# shellcheck shell=bash disable=SC2034
# Settings and helpers of all scripts here. Source it.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RIG=$(realpath -m "${RIG:-/tmp/mcx-rig}")                          # state folder of this rig
RIG_KNOWN=${RIG_PORT:-$(cat "$RIG/port" 2>/dev/null || :)}         # empty: nobody said which, and the folder does not know
: "${RIG_PORT:=${RIG_KNOWN:-16440}}"                                    # first of ten ports; also names this rig on the host
export RIG RIG_PORT MCX_RIG_CACHE=${MCX_RIG_CACHE:-$HOME/.cache/mcx-rig}
API=$((RIG_PORT + 3)) ETCD=$((RIG_PORT + 4)) PEER=$((RIG_PORT + 5)) KCM=$((RIG_PORT + 6)) SCHED=$((RIG_PORT + 7))
TAG=rig$RIG_PORT                                                   # prefix of cgroups and machine names
NET=127.$((RIG_PORT / 256)).$((RIG_PORT % 256))                    # kubelet of node number N on the host: $NET.N:10250
PKI=$RIG/pki LOG=$RIG/log PID=$RIG/pid NODES=$RIG/nodes
hash() { cat "$@" | sha256sum | cut -c1-12; }
KBIN=$MCX_RIG_CACHE/kube-$(hash "$HERE"/kube/go.{mod,sum})
KWOK=$MCX_RIG_CACHE/kwok-$(hash "$HERE"/kwok/go.{mod,sum})
ROOTFS=$MCX_RIG_CACHE/rootfs-$(hash "$HERE/rootfs.sh")
IMAGES=$MCX_RIG_CACHE/images-$(hash "$HERE"/probe/* "$HERE/mkimage.sh")
export PATH=${KUBEBUILDER_ASSETS:+$KUBEBUILDER_ASSETS:}$KBIN:$KWOK:$PATH KUBECONFIG=$RIG/admin.kubeconfig NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost

# down.sh deletes below $RIG: only a folder that a rig has claimed, or an empty one
[ ! -d "$RIG" ] || [ -e "$RIG/.mcx-rig" ] || [ -z "$(ls -A "$RIG")" ] || { echo "RIG=$RIG holds something else" >&2; return 1; }
claim() { mkdir -p "$RIG"; touch "$RIG/.mcx-rig"; echo "$RIG_PORT" >"$RIG/port"; }

T0=$(date +%s%N)
el() { local d=$((($(date +%s%N) - T0) / 10000000)); printf '%4d.%02d s  %s\n' $((d / 100)) $((d % 100)) "$*"; }   # elapsed
poll() { local e=$((SECONDS + $1)); until "${@:2}"; do [ $SECONDS -lt $e ] || return 1; sleep .05; done; }   # poll SECONDS CMD...

# Every process started here carries MCX_RIG_OF in its environment: that, not a stored pid, tells whose it is.
start() { # start NAME CMD...: own session, log, pid file; returns when the mark is visible (or the process has ended)
  MCX_RIG_OF=$RIG setsid "${@:2}" >>"$LOG/$1.log" 2>&1 </dev/null 8>&- & local p=$!; echo $p >"$PID/$1"; until mine $p || ! kill -0 $p 2>/dev/null; do sleep .01; done; }
mine() { # environ reads as empty for a moment while the process execs: ready() looks twice
  grep -qzxF "MCX_RIG_OF=$RIG" "/proc/$1/environ" 2>/dev/null; }
alive() { local p; p=$(cat "$PID/$1" 2>/dev/null) && mine "$p"; }
group() { if alive "$1"; then kill "-$2" -- "-$(cat "$PID/$1")"; fi; }                                # group NAME SIGNAL
all_mine() { local p; for p in /proc/[0-9]*; do if mine "${p#/proc/}"; then echo "${p#/proc/}"; fi; done; }
ready() { alive "$1" || { sleep .3; alive "$1"; } || { echo "$1 died:" >&2; tail -5 "$LOG/$1.log" >&2; exit 1; }; curl -skf --cert "$PKI/admin.crt" --key "$PKI/admin.key" "$2" >/dev/null; }

# In a fresh mount namespace: let go of mounts of others below the usual places, or they stay busy for their owners.
let_go() {
  local m; tac /proc/self/mounts | while read -r _ m _; do
    case $m in /tmp/* | /var/tmp/* | /mnt/* | /media/* | /var/lib/*) ;; *) continue ;; esac
    case "$RIG/" in "$m/"*) continue ;; esac; case "$MCX_RIG_CACHE/" in "$m/"*) continue ;; esac; case "$HERE/" in "$m/"*) continue ;; esac
    umount -l "$m" 2>/dev/null || :
  done
}

# cgroups: v1 controllers plus "unified", which is what the rig is used on, or a v2-only host, on which it was never run
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then CG2=/sys/fs/cgroup; else CG2=/sys/fs/cgroup/unified; fi
cgs() { local h; if [ $CG2 = /sys/fs/cgroup ]; then echo $CG2; else
  for h in systemd unified cpu cpuacct cpuset memory devices freezer blkio pids; do [ ! -d /sys/fs/cgroup/$h ] || echo /sys/fs/cgroup/$h; done; fi; }
unpopulated() { [ ! -d "$CG2/$1" ] || grep -q '^populated 0' "$CG2/$1/cgroup.events"; }
cg_end() { # cg_end NAME: kill what is in the cgroup, wait, remove it
  [ ! -d "$CG2/$1" ] || echo 1 >"$CG2/$1/cgroup.kill"; poll 20 unpopulated "$1"
  local h; for h in $(cgs); do [ ! -d "$h/$1" ] || find "$h/$1" -depth -type d -exec rmdir {} \; 2>/dev/null || :; done; }

leaf() { # leaf NAME SUBJECT USAGE [SAN]: key and certificate in $PKI
  local x="basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=$3\n${4:+subjectAltName=$4\n}"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$PKI/$1.key" -subj "$2" 2>/dev/null |
    openssl x509 -req -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -set_serial "0x$(openssl rand -hex 8)" -days 3650 -extfile <(printf "$x") -out "$PKI/$1.crt" 2>/dev/null; }
kubeconfig() { # kubeconfig NAME FILE [SERVER]
  b() { base64 -w0 "$PKI/$1"; }
  (umask 077; cat >"$2" <<Y
apiVersion: v1
kind: Config
clusters: [{name: rig, cluster: {server: "${3:-https://127.0.0.1:$API}", certificate-authority-data: $(b ca.crt)}}]
users: [{name: rig, user: {client-certificate-data: $(b "$1.crt"), client-key-data: $(b "$1.key")}}]
contexts: [{name: rig, context: {cluster: rig, user: rig}}]
current-context: rig
Y
); }
