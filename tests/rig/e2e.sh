#!/bin/bash
# e2e.sh [TEST...]: the tests that need the rig, from nothing to nothing: on bare control planes, then on one cluster that they share.
#
# TEST: names of test files, e2e_chrony for tests/e2e_chrony.rs; default: all that have ignored tests, but those of tests/faults. FILTER=WORD: only tests whose names contain it. SHOW=1: what they print.
# KEEP=1 leaves the cluster up at the end; then, with REUSE=1, the next run takes it as it is (old image included).
# The tests get MCX_RIG (the cluster's folder), MCX_RIG_KUBECONFIG and MCX_IMAGE; each begins by putting the cluster into its shipped state.
set -euo pipefail
export RIG=${RIG:-/tmp/mcx-test} RIG_PORT=${RIG_PORT:-16640}
. "$(dirname "$0")/env.sh"
REPO=$(cd "$HERE/../.." && pwd); cd "$REPO"
[ "$(id -u)" = 0 ] || { echo "e2e.sh: root is needed: the nodes are systemd-nspawn guests. Without it: cargo test" >&2; exit 1; }
command -v go >/dev/null || [ -x "$KBIN/kubelet" ] || { echo "e2e.sh: Go is needed to build the control plane. Without it: cargo test" >&2; exit 1; }

claim; exec 8>"$RIG/run.lock"; flock -w 5 8 || { echo "e2e.sh: another run works in $RIG; set another RIG and RIG_PORT, or wait" >&2; exit 1; }
child="" beside=""
finish() { # the clusters that tests started for themselves lie beside this one
  local rc=$?; trap - EXIT INT TERM HUP
  for c in $child $beside; do kill -- "-$c" 2>/dev/null || :; done
  [ -z "$beside" ] || wait "$beside" || :
  for r in "$RIG"-*; do [ ! -e "$r/port" ] || RIG=$r RIG_PORT="" "$HERE/down.sh" >/dev/null || :; done
  [ -n "${KEEP:-}" ] || "$HERE/down.sh" || rc=1
  exit "$rc"; }
trap finish EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; trap 'exit 129' HUP

# Three places: a control plane with nothing in it for tests that bring their own controllers, objects or nothing at all;
# one more for those that start controllers; and for the rest a cluster with nodes and mcx installed. When all are asked for,
# the first two are beside the third (another run of this script): mostly, each of them waits.
bare=() controllers=() cluster=()
place() { case $1 in api_objects | daemon_identity | drain | e2e_api_weather) bare+=("$1") ;; controller | frozen_leader) controllers+=("$1") ;; *) cluster+=("$1") ;; esac; }
[ $# -gt 0 ] || { mapfile -t all < <(grep -l '^#\[ignore' tests/*.rs | grep -v -e /bench_ -e /power_ | sed 's|tests/\(.*\).rs|\1|'); set -- "${all[@]}"; }
tests=(); for t; do tests+=(--test "$t"); place "$t"; done

# what does not compile is known before anything is started
cargo test --locked --no-run "${tests[@]}" 8>&-
export MCX_RIG=$RIG MCX_RIG_KUBECONFIG=$KUBECONFIG
rc=0
run() { # run TEST...: in the background and in its own process group, so that a signal is heard at once and ends all of it;
  # one test at a time: they share what runs
  local t tests=(); for t; do tests+=(--test "$t"); done
  set -m
  cargo test --locked --no-fail-fast "${tests[@]}" -- --ignored --test-threads=1 ${SHOW:+--nocapture} ${FILTER:+"$FILTER"} 8>&- </dev/null & child=$!
  set +m
  wait "$child" || rc=$?; child=; }
control_plane() { "$HERE/build.sh" | tail -1; "$HERE/down.sh" >/dev/null || :; claim
  "$HERE/up.sh" >"$RIG/up.out" 2>&1 8>&- || { cat "$RIG/up.out" >&2; exit 1; }; el "control plane up, nothing in it"; }

if [ ${#cluster[@]} -gt 0 ] && [ $((${#bare[@]} + ${#controllers[@]})) -gt 0 ]; then
  "$HERE/build.sh" | tail -1
  set -m
  RIG=$RIG-beside RIG_PORT=$((RIG_PORT + 90)) KEEP="" REUSE="" "$HERE/e2e.sh" "${bare[@]}" "${controllers[@]}" >"$RIG/beside.out" 2>&1 8>&- </dev/null & beside=$!
  set +m
  bare=() controllers=()
fi
[ ${#bare[@]} = 0 ] || { control_plane; run "${bare[@]}"; }
[ ${#controllers[@]} = 0 ] || { control_plane; run "${controllers[@]}"; }
if [ ${#cluster[@]} -gt 0 ]; then
  MCX_IMAGE=${MCX_IMAGE:-$("$HERE/image.sh" 8>&-)}; export MCX_IMAGE
  if [ -z "${REUSE:-}" ] || ! kubectl get --raw /readyz >/dev/null 2>&1; then "$HERE/cluster.sh" m1:master w1 w2 w3 8>&-; fi
  el "cluster up; KUBECONFIG=$KUBECONFIG"
  run "${cluster[@]}"
fi
if [ -n "$beside" ]; then wait "$beside" || rc=$?; beside=; cat "$RIG/beside.out"; fi
el "tests ended with $rc"; exit "$rc"
