//! Behaviour: the daemon's token of one node can change its own annotations on that Node and nothing else.
//!
//! Tokens are those of the real daemon pods: the API server binds each to its pod and its node.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod harness;

use harness::{NODES, Rig, rig, text};
use serde_json::{Value, json};

/// A token like the one in the daemon's pod on `node`.
fn token(rig: &Rig, node: &str) -> String {
    let pod = rig.daemon_on(node);
    let path =
        format!("/api/v1/namespaces/mcx-system/serviceaccounts/{}/token", text(&pod, "/spec/serviceAccountName"));
    let bound =
        json!({"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": 600, "boundObjectRef": bound}});
    text(&rig.create(&path, &request).expect("a token"), "/status/token")
}

/// Patches with that token instead of the administrator's certificate; the error is kubectl's.
fn patch(rig: &Rig, token: &str, object: &[&str], patch: &Value) -> Result<(), String> {
    let kubeconfig = std::fs::read_to_string(rig.path("admin.kubeconfig")).unwrap();
    let server = kubeconfig.split('"').find(|s| s.starts_with("https://")).expect("a server").to_owned();
    let authority = rig.path("pki/ca.crt");
    let text = patch.to_string();
    let mut args = vec!["--kubeconfig=/dev/null", "--server", &server, "--token", token, "--certificate-authority"];
    args.push(authority.to_str().unwrap());
    args.push("patch");
    args.extend(object);
    args.extend(["--type=merge", "-p", &text]);
    let output = rig.try_kubectl(&args, "");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn annotation(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {format!("machineconfiguration.alauda.io/{key}"): value}}})
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_daemons_token_changes_its_own_annotations_on_its_own_node_only() {
    let rig = rig();
    let own = token(&rig, "w1");
    let before = rig.get(&format!("{NODES}/w2")).unwrap();
    // What it must be able to do, or the rest proves nothing. The daemon writes its own value again.
    patch(&rig, &own, &["node", "w1"], &annotation("reason", "a test was here")).expect("its own annotation");
    patch(
        &rig,
        &own,
        &["node", "w1"],
        &json!({"metadata": {"annotations": {"machineconfiguration.alauda.io/reason": null}}}),
    )
    .expect("its own annotation");

    let spec = json!({"spec": {"unschedulable": true}});
    let taint = json!({"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}});
    let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}});
    let status = json!({"status": {"conditions": []}});
    for (what, object, body) in [
        ("another Node", &["node", "w2"][..], annotation("state", "Done")),
        ("another Node's reason", &["node", "m1"], annotation("reason", "x")),
        ("its own cordon", &["node", "w1"], spec),
        ("its own taints", &["node", "w1"], taint),
        ("its own labels", &["node", "w1"], label),
        ("its own desired config", &["node", "w1"], annotation("desiredConfig", "rendered-worker-x")),
        ("the controller's answer to its drain", &["node", "w1"], annotation("lastAppliedDrain", "drain-x-9")),
        ("the controller's cordon mark", &["node", "w1"], annotation("cordonedBy", "mcx")),
        ("an administrator's hold", &["node", "w1"], annotation("hold", "x")),
        ("a foreign annotation", &["node", "w1"], json!({"metadata": {"annotations": {"example.com/x": "y"}}})),
        ("its own status", &["node", "w1", "--subresource=status"], status),
        ("a pool", &["mcp", "worker"], json!({"spec": {"paused": true}})),
        ("a source", &["mc", "00-worker"], json!({"spec": {"config": null}})),
        ("the policy", &["machineconfiguration", "cluster"], json!({"spec": {"nodeDisruptionPolicy": null}})),
    ] {
        match patch(&rig, &own, object, &body) {
            Ok(()) => panic!("a daemon may change {what}"),
            Err(error) => assert!(error.contains("orbidden") || error.contains("denied"), "{what}: {error}"),
        }
    }
    let after = rig.get(&format!("{NODES}/w2")).unwrap();
    assert_eq!(before["metadata"]["annotations"], after["metadata"]["annotations"]);
}

#[test]
#[ignore = "needs the rig: make test"]
fn a_token_that_is_bound_to_no_node_changes_nothing() {
    let rig = rig();
    let account = text(&rig.daemon_on("w1"), "/spec/serviceAccountName");
    let loose = rig.kubectl(&["-n", "mcx-system", "create", "token", &account]);
    let error = patch(&rig, loose.trim(), &["node", "w1"], &annotation("reason", "x")).expect_err("an unbound token");
    assert!(error.contains("orbidden") || error.contains("denied"), "{error}");
}
