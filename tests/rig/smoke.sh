#!/bin/bash
# smoke.sh: the rig tests itself, from nothing to nothing, without mcx: 1 master, 3 workers, and each part of the rig once. KEEP=1: leave it running
set -eu; . "$(dirname "$0")/env.sh"; cd "$HERE"
ok() { el "ok: $*"; }
fail() { el "FAILED: $*"; exit 1; }
must() { local d=$1; shift; poll 60 "$@" || fail "$d"; ok "$d"; }        # must TEXT CMD...: true within 60 s
has() { local o; o=$("${@:2}" 2>&1) || :; [[ $o == *"$1"* ]]; }             # has TEXT CMD...: the output contains it
is() { [ "$("${@:2}" 2>/dev/null)" = "$1" ]; }                             # is TEXT CMD...: the output is it
field() { kubectl get -n rig "$1" -o "jsonpath=$2"; }
pod() { kubectl -n rig get pod -l app=probe --field-selector "spec.nodeName=$1" -o name; }
in_pod() { kubectl -n rig exec "$(pod "$1")" -- /app "${@:2}"; }
cond() { field "node/$1" '{.status.conditions[?(@.type=="Ready")].status}'; }
evict() { kubectl create --raw "/api/v1/namespaces/rig/pods/$1/eviction" -f - <<<"{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"name\":\"$1\",\"namespace\":\"rig\"}}"; }

claim; exec 8>"$RIG/smoke.lock"; flock -w 60 8 || fail "another smoke.sh works in $RIG"
./down.sh; [ -n "${KEEP:-}" ] || trap './down.sh' EXIT
./build.sh; ./up.sh; el "control plane up"
./node.sh start m1 master; ./node.sh start w1; SHUTDOWN_GRACE=30s ./node.sh start w2; ./node.sh start w3
for n in m1 w1 w2 w3; do ./node.sh wait $n; done; ok "4 nodes Ready"
kubectl apply -f probe.yaml -f own-node.yaml >/dev/null
must "DaemonSet on all 4" is 4 field ds/probe '{.status.numberReady}'
must "2 replicas ready" is 2 field deploy/app '{.status.readyReplicas}'
must "logs" has "pid 1 is systemd" kubectl -n rig logs "$(pod w1)"
must "API from a pod's own network" has '"kind":"Status"' kubectl -n rig exec deploy/app -- /app api GET /version
must "exec: pod drives the node's systemd" is running in_pod w1 sh 'systemctl is-system-running'
must "chronyd active" is active ./node.sh exec w1 systemctl is-active chronyd
P1=$(./node.sh exec w1 systemctl show -p MainPID --value chronyd); ./node.sh exec w1 systemctl restart chronyd
must "chronyd restarted" is active ./node.sh exec w1 systemctl is-active chronyd; is "$P1" ./node.sh exec w1 systemctl show -p MainPID --value chronyd && fail "same chronyd"
must "/usr is read-only" has "Read-only file system" in_pod w1 sh 'touch /usr/x'
./node.sh exec w1 sh -c 'install -d -m 700 -o boot -g boot ~boot/.ssh; install -m 600 -o boot -g boot /dev/stdin ~boot/.ssh/authorized_keys' <"$PKI/ssh.pub"
must "ssh as boot" is boot nsenter -t "$(./node.sh leader w1)" -n ssh -i "$PKI/ssh" -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null boot@127.0.0.1 whoami

P='{"metadata":{"annotations":{"rig/a":"b"}}}'
must "own node: 200" has "200 " in_pod w1 api PATCH /api/v1/nodes/w1 "$P"
must "other node: 403" has "403 " in_pod w1 api PATCH /api/v1/nodes/w2 "$P"
must "other node's status: 403" has "403 " in_pod w1 api PATCH /api/v1/nodes/w2/status "$P"

A=$(kubectl -n rig get pod -l app=app -o 'jsonpath={.items[0].metadata.name}') W=$(field "pod/$A" '{.spec.nodeName}')
must "eviction against the budget: 429" has "disruption budget" evict "$A"
kubectl -n rig patch pdb app --type merge -p '{"spec":{"minAvailable":1}}' >/dev/null
must "budget allows 1" is 1 field pdb/app '{.status.disruptionsAllowed}'
t=$(date +%s%N); kubectl drain "$W" --ignore-daemonsets --timeout 60s >/dev/null 2>&1 || fail drain; ok "drain of $W took $((($(date +%s%N) - t) / 1000000)) ms"; kubectl uncordon "$W" >/dev/null

B=$(./node.sh bootid w2); t=$(date +%s%N); in_pod w2 sh 'systemctl reboot' || :; changed() { local b; b=$(./node.sh bootid w2 2>/dev/null) && [ "$b" != "$B" ] && ./node.sh wait w2; }
must "reboot from the pod: new bootID, Ready" changed; ok "reboot took $((($(date +%s%N) - t) / 1000000)) ms"
is "$(./node.sh bootid w2)" field node/w2 '{.status.nodeInfo.bootID}' || fail "bootID of the Node"
must "DaemonSet whole again" is 4 field ds/probe '{.status.numberReady}'
./node.sh cut w3; t=$(date +%s%N); must "cut w3: Ready is Unknown" is Unknown cond w3; ok "that took $((($(date +%s%N) - t) / 1000000)) ms"
./node.sh mend w3; must "mend w3: Ready" is True cond w3
has kubelet ./node.sh exec w2 systemd-inhibit --list --no-pager && ! has kubelet ./node.sh exec w1 systemd-inhibit --list --no-pager || fail "the kubelet of w2, and no other, should delay a shutdown"; ok "SHUTDOWN_GRACE on w2 alone"

./mkimage.sh "$RIG/probe2.tar" rig.test/probe:2 "$IMAGES/probe"; for n in m1 w1 w2 w3; do ./node.sh load $n "$RIG/probe2.tar" >/dev/null; done; rm "$RIG/probe2.tar"
kubectl -n rig set image ds/probe probe=rig.test/probe:2 >/dev/null; kubectl -n rig rollout status ds/probe --timeout 60s >/dev/null || fail "rolling update"; ok "rolling update of the DaemonSet"
el "all passed"
