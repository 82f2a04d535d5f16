#!/bin/bash
# cluster.sh NODE[:ROLE[:SETTING=VALUE]]...: a fresh cluster of these nodes, with mcx installed by its manifests as on any cluster.
#
# Whatever ran under this $RIG before is removed first. The roles and settings are those of node.sh start.
# MCX_IMAGE=FILE: the archive to install; without it the checkout is built (profile ci) and packed.
# Example: cluster.sh m1:master w1 w2:worker:SHUTDOWN_GRACE=30s
set -euo pipefail; . "$(dirname "$0")/env.sh"
[ $# -gt 0 ] || { sed -n '2,7s/^# \?//p' "$0" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "cluster.sh: root is needed: the nodes are systemd-nspawn guests" >&2; exit 1; }
REPO=$(cd "$HERE/../.." && pwd)

"$HERE/down.sh" >/dev/null || { echo "cluster.sh: something of an earlier run under $RIG cannot be removed: $HERE/down.sh --status" >&2; exit 1; }
"$HERE/build.sh"; claim
[ -n "${MCX_IMAGE:-}" ] || { MCX_IMAGE=$("$HERE/image.sh"); el "image $MCX_IMAGE"; }
"$HERE/up.sh" >"$RIG/up.out" 2>&1 || { cat "$RIG/up.out" >&2; exit 1; }; rm "$RIG/up.out"
el "control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler)"

# into the nodes' common layer, whose archives are imported at every start: nodes that join later have the image too
cp "$MCX_IMAGE" "$RIG/layer/opt/rig/mcx.tar"
names=()
for spec; do
  IFS=: read -r name role setting <<<"$spec:::"; setting=${setting%%:*}; names+=("$name")
  env ${setting:+"$setting"} "$HERE/node.sh" start "$name" "${role:-worker}"
done
kubectl apply -k "$REPO/manifests" >"$LOG/apply.log" 2>&1 || { cat "$LOG/apply.log" >&2; exit 1; }
el "manifests applied (kubectl apply -k manifests/)"
for name in "${names[@]}"; do "$HERE/node.sh" wait "$name" 120; done
el "${#names[@]} nodes Ready: ${names[*]}"

N=machineconfiguration.alauda.io
installed() { # every node has what its pool wants, proven by its daemon
  kubectl get nodes -o json 2>/dev/null | jq -e --arg n "$N" 'def a(k): .metadata.annotations["\($n)/\(k)"];
    .items | all(a("state") == "Done" and a("currentConfig") != null and a("currentConfig") == a("desiredConfig") and (.spec.unschedulable | not))' >/dev/null &&
  kubectl get mcp master worker -o json 2>/dev/null | jq -e '.items | length == 2 and all(.status.conditions // [] | any(.type == "Updated" and .status == "True"))' >/dev/null || { sleep .3; return 1; }; }
if ! poll 120 installed; then
  { echo "cluster.sh: mcx is not in order on every node after 120 s"; kubectl get mcp,mc,nodes; kubectl -n mcx-system get pods -o wide
    kubectl -n mcx-system get events --sort-by=.lastTimestamp | tail -15
    for p in $(kubectl -n mcx-system get pods -o name); do echo "--- $p"; kubectl -n mcx-system logs --tail 15 "$p"; done; } >&2 2>&1
  exit 1
fi
el "mcx installed, every node Done"
