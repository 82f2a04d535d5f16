#!/bin/bash
# e2e.sh [TEST...]: the tests that need the rig, on one cluster that they share, from nothing to nothing.
#
# TEST: names of test files, e2e_chrony for tests/e2e_chrony.rs; default: all that have ignored tests. FILTER=WORD: only tests whose names contain it. SHOW=1: what they print.
# KEEP=1 leaves the cluster up at the end; then, with REUSE=1, the next run takes it as it is (old image included).
# The tests get MCX_RIG (the cluster's folder), MCX_RIG_KUBECONFIG and MCX_IMAGE; each begins by putting the cluster into its shipped state.
set -euo pipefail
export RIG=${RIG:-/tmp/mcx-test} RIG_PORT=${RIG_PORT:-16640}
. "$(dirname "$0")/env.sh"
REPO=$(cd "$HERE/../.." && pwd); cd "$REPO"
[ "$(id -u)" = 0 ] || { echo "e2e.sh: root is needed: the nodes are systemd-nspawn guests. Without it: cargo test" >&2; exit 1; }
command -v go >/dev/null || [ -x "$KBIN/kubelet" ] || { echo "e2e.sh: Go is needed to build the control plane. Without it: cargo test" >&2; exit 1; }

claim; exec 8>"$RIG/run.lock"; flock -w 5 8 || { echo "e2e.sh: another run works in $RIG; set another RIG and RIG_PORT, or wait" >&2; exit 1; }
child=
finish() { # the clusters that tests started for themselves lie beside this one
  local rc=$?; trap - EXIT INT TERM HUP
  [ -z "$child" ] || kill -- "-$child" 2>/dev/null || :
  for r in "$RIG"-*; do [ ! -e "$r/port" ] || RIG=$r RIG_PORT="" "$HERE/down.sh" >/dev/null || :; done
  [ -n "${KEEP:-}" ] || "$HERE/down.sh" || rc=1
  exit "$rc"; }
trap finish EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; trap 'exit 129' HUP

# what does not compile is known before a cluster is started
[ $# -gt 0 ] || { mapfile -t all < <(grep -l '^#\[ignore' tests/*.rs | grep -v /bench_ | sed 's|tests/\(.*\).rs|\1|'); set -- "${all[@]}"; }
tests=(); for t; do tests+=(--test "$t"); done
cargo test --locked --no-run "${tests[@]}" 8>&-
export MCX_IMAGE=${MCX_IMAGE:-$("$HERE/image.sh" 8>&-)} MCX_RIG=$RIG MCX_RIG_KUBECONFIG=$KUBECONFIG
if [ -z "${REUSE:-}" ] || ! kubectl get --raw /readyz >/dev/null 2>&1; then "$HERE/cluster.sh" m1:master w1 w2 w3; fi
el "cluster up; KUBECONFIG=$KUBECONFIG"

# in the background and in its own process group, so that a signal is heard at once and ends all of it;
# one test at a time: they share the cluster
set -m
cargo test --locked --no-fail-fast "${tests[@]}" -- --ignored --test-threads=1 ${SHOW:+--nocapture} ${FILTER:+"$FILTER"} 8>&- </dev/null & child=$!
rc=0; wait "$child" || rc=$?; child=
el "tests ended with $rc"; exit "$rc"
