#!/bin/bash
# demo.sh up|down: a real cluster on this machine (one master, three workers), mcx installed by its manifests, and the
# chrony example of the guide rolling out before your eyes. `up` leaves the cluster running; `down` removes it.
set -euo pipefail
export RIG=${RIG:-/tmp/mcx-demo} RIG_PORT=${RIG_PORT:-16540}
cd "$(dirname "$0")/.."
rig=tests/rig
guide=tests/data/guide
. "$rig/env.sh"
cd "$HERE/../.."

say() { printf '\n%s\n' "$*"; }

case ${1:-} in
down) exec "$rig/down.sh" ;;
up) ;;
*) echo "usage: demo.sh up|down" >&2; exit 2 ;;
esac

[ "$(id -u)" = 0 ] || { echo "The demo needs root: its nodes are systemd-nspawn guests on this machine." >&2; exit 1; }
claim
exec 8>"$RIG/run.lock"
flock -w 5 8 || { echo "Another demo is being set up in $RIG." >&2; exit 1; }
done_=
finish() { # interrupted or failed: leave nothing behind
  local rc=$?
  trap - EXIT INT TERM HUP
  [ -n "$done_" ] || { echo "Cleaning up ..."; "$rig/down.sh" 8>&- || :; }
  exit $rc
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say "A Kubernetes cluster on this machine: a real control plane, and nodes that are booted systemd guests with kubelet
and containerd. The first time its parts are built (about 16 minutes on two cores); they stay in $MCX_RIG_CACHE."
MCX_IMAGE=${MCX_IMAGE:-$("$rig/image.sh" 8>&-)}
export MCX_IMAGE
el "mcx built and packed: $(du -h "$MCX_IMAGE" | cut -f1) static binary in an empty image"
"$rig/cluster.sh" m1:master w1 w2 w3 8>&-

say "The policy of the guide: a change of /etc/chrony.conf restarts chronyd, and nothing else."
kubectl apply -f "$guide/chrony-policy.yaml" 2>/dev/null
in_effect() {
  kubectl get machineconfiguration cluster -o json | jq -e '.status.observedGeneration == .metadata.generation and
    (.status.nodeDisruptionPolicyStatus.clusterPolicies.files // [] | any(.path == "/etc/chrony.conf"))' >/dev/null
}
poll 30 in_effect || { echo "The policy did not come into effect within 30 s." >&2; exit 1; }
el "in effect: kubectl get machineconfiguration cluster -o jsonpath='{.status}'"

say "The source of the guide, 99-worker-chrony, and what the nodes make of it:"
before=$(kubectl get mcp worker -o 'jsonpath={.spec.configuration.name}')
sed "s|<encoded-content>|$(base64 -w0 "$guide/chrony.conf")|" "$guide/chrony.yaml" | kubectl apply -f -

# One line for each change of a node: state, phase, cordon, and the last digits of current and desired config.
nodes() {
  kubectl get nodes -o json | jq -r '.items[] | .metadata.annotations as $a
    | def a(k): $a["machineconfiguration.alauda.io/\(k)"] // "";
      def short: if . == "" then "-" else sub("^rendered-(?<p>.*)-(?<h>[0-9a-f]{6})[0-9a-f]*$"; "\(.p)-\(.h)") end;
    [.metadata.name, a("state"), (a("phase") | split(" ")[0] // ""), (a("currentConfig") | short), (a("desiredConfig") | short),
     (if .spec.unschedulable then "cordoned" else "" end)] | @tsv'
}
declare -A last=()
first=
end=$((SECONDS + 180))
while :; do
  left=0
  while IFS=$'\t' read -r name state phase current desired cordon; do
    line=$(printf '%-4s %-9s %-11s %-14s -> %-14s %s' "$name" "$state" "$phase" "$current" "$desired" "$cordon")
    [ "${last[$name]:-}" = "$line" ] || { el "$line"; last[$name]=$line; }
    case $name in w*)
      if [ "$state" = Done ] && [ "$current" = "$desired" ] && [ "$desired" != "$(short=${before#rendered-worker-}; echo "worker-${short:0:6}")" ]; then
        [ -n "$first" ] || { first=$name; el "---- $name is the first node that is Done with the new config"; }
      else left=$((left + 1)); fi ;;
    esac
  done < <(nodes | sed 's/\t\t/\t \t/g; s/\t\t/\t \t/g; s/\t$/\t /')
  [ $left -gt 0 ] || break
  [ $SECONDS -lt $end ] || { echo "The rollout is not through after 180 s:" >&2; kubectl describe mcp worker >&2; exit 1; }
  sleep .2
done
updated() { kubectl get mcp worker -o json | jq -e '.status.conditions | any(.type == "Updated" and .status == "True")' >/dev/null; }
poll 30 updated
el "all workers are Done; chronyd was restarted on each, no node was cordoned or rebooted"
say "\$ kubectl get mcp"
kubectl get mcp
say "\$ kubectl get mc"
kubectl get mc

done_=1
cat <<T

The cluster stays up. To use it in a shell:

  export KUBECONFIG=$KUBECONFIG PATH=$KBIN:\$PATH
  node() { RIG=$RIG $PWD/$rig/node.sh "\$@"; }

Things to try:
  drift     node exec w1 sh -c 'echo "# by hand" >>/etc/chrony.conf'
            kubectl get node w1 -o yaml | grep machineconfiguration     # Degraded, and why; nothing is overwritten
  force     node exec w1 touch /run/machine-config-daemon-force         # applied again, reboot, Done
  reboot    kubectl apply -f $guide/disable-chrony.yaml     # cordon, drain, apply, reboot, uncordon: one by one
            kubectl get nodes -w
  undo      kubectl delete mc 99-worker-disable-chrony                  # the vendor's unit is given back
  ssh       sed "s|ssh-rsa <ssh-public-key>|\$(cat $RIG/pki/ssh.pub)|" $guide/ssh.yaml | kubectl apply -f -
            nsenter -t \$(node leader w1) -n ssh -i $RIG/pki/ssh -o StrictHostKeyChecking=no boot@127.0.0.1

Remove it all: make demo-down
T
