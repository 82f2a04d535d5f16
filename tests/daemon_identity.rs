//! What a daemon may do to Nodes, seen with real tokens on a real API server: its own annotations on its own Node, and
//! nothing else. And what each identity of mcx may do at all, as a list that is reviewed like code.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod cluster;

use cluster::{admin, install, kubectl, with_token};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use mcx::api::{DAEMONSET, NAMESPACE, annotation};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const OWN: &str = "identity-own";
const OTHER: &str = "identity-other";

/// Two Nodes, and a pod of the daemon's on the first. Nobody runs them; the API server does not care.
async fn surroundings(client: &Client) -> (Node, Pod) {
    remove(client).await;
    let nodes: Api<Node> = Api::all(client.clone());
    for name in [OTHER, OWN] {
        let node = json!({"metadata": {
            "name": name, "labels": {"kept": "yes"},
            "annotations": {annotation::LAST_APPLIED_DRAIN: "drain-c-1", annotation::STATE: "Done"}
        }});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).expect("a Node")).await.expect("created");
    }
    let pod = json!({"metadata": {"name": OWN, "namespace": NAMESPACE}, "spec": {
        "nodeName": OWN, "serviceAccountName": DAEMONSET, "containers": [{"name": "c", "image": "registry.local/none"}]
    }});
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = pods.create(&PostParams::default(), &serde_json::from_value(pod).expect("a Pod")).await.expect("created");
    (nodes.get(OWN).await.expect("there"), pod)
}

async fn remove(client: &Client) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete(OWN, &now).await.ok();
    for name in [OWN, OTHER] {
        Api::<Node>::all(client.clone()).delete(name, &DeleteParams::default()).await.ok();
    }
}

/// A token of the daemon's ServiceAccount, bound to an object or to none.
async fn token(client: &Client, bound: Option<(&str, &str, &str)>) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: Vec::new(),
            expiration_seconds: Some(600),
            bound_object_ref: bound.map(|(kind, name, uid)| BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some(kind.to_owned()),
                name: Some(name.to_owned()),
                uid: Some(uid.to_owned()),
            }),
        },
        ..TokenRequest::default()
    };
    let answer = accounts.create_token_request(DAEMONSET, &PostParams::default(), &request).await.expect("a token");
    answer.status.expect("a status").token
}

/// The API server's words when it refuses, none when it does not.
async fn refused(client: &Client, node: &str, patch: &Value) -> Option<String> {
    let nodes: Api<Node> = Api::all(client.clone());
    match nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) if status.code == 403 => Some(status.message),
        Err(error) => panic!("{node}: {error}"),
    }
}

fn annotate(key: &str, value: &Value) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

#[tokio::test]
#[ignore = "needs a cluster: set MCX_RIG_KUBECONFIG"]
async fn a_daemon_changes_its_own_annotations_on_its_own_node_and_nothing_else_r183() {
    install();
    let client = admin().await;
    let (node, pod) = surroundings(&client).await;
    let uid = |meta: &kube::api::ObjectMeta| meta.uid.clone().expect("a UID");
    let by_pod = with_token(&token(&client, Some(("Pod", OWN, &uid(&pod.metadata)))).await).await;
    let by_node = with_token(&token(&client, Some(("Node", OWN, &uid(&node.metadata)))).await).await;
    let unbound = with_token(&token(&client, None).await).await;

    for (who, daemon) in [("pod's token", &by_pod), ("Node's token", &by_node)] {
        for key in annotation::DAEMON_OWNED {
            assert_eq!(refused(daemon, OWN, &annotate(key, &json!("x"))).await, None, "{who}: {key}");
            assert_eq!(refused(daemon, OWN, &annotate(key, &Value::Null)).await, None, "{who}: removing {key}");
        }
        for (what, patch, words) in [
            ("desiredConfig", annotate(annotation::DESIRED_CONFIG, &json!("x")), "only these annotations"),
            (
                "lastAppliedDrain",
                annotate(annotation::LAST_APPLIED_DRAIN, &json!("drain-c-2")),
                "only these annotations",
            ),
            (
                "removing lastAppliedDrain",
                annotate(annotation::LAST_APPLIED_DRAIN, &Value::Null),
                "only these annotations",
            ),
            ("cordonedBy", annotate(annotation::CORDONED_BY, &json!("mcx")), "only these annotations"),
            ("hold", annotate(annotation::HOLD, &json!("x")), "only these annotations"),
            ("somebody's annotation", annotate("example.com/x", &json!("x")), "only these annotations"),
            ("a new label", json!({"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}}), "labels"),
            ("removing a label", json!({"metadata": {"labels": {"kept": null}}}), "labels"),
            ("a finalizer", json!({"metadata": {"finalizers": ["example.com/x"]}}), "finalizers"),
            ("a taint", json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}), "spec"),
            ("a cordon", json!({"spec": {"unschedulable": true}}), "spec"),
        ] {
            let answer = refused(daemon, OWN, &patch).await.unwrap_or_else(|| panic!("{who}: {what} was let through"));
            assert!(answer.contains(words), "{who}: {what}: {answer}");
        }
        let answer = refused(daemon, OTHER, &annotate(annotation::STATE, &json!("x"))).await;
        let answer = answer.unwrap_or_else(|| panic!("{who}: another Node was let through"));
        assert!(answer.contains("only its own Node"), "{who}: {answer}");
    }
    let answer = refused(&unbound, OWN, &annotate(annotation::STATE, &json!("x"))).await.expect("an unbound token");
    assert!(answer.contains("bound to no node"), "{answer}");

    // An owned annotation does not carry a foreign change through.
    let both = json!({"metadata": {"annotations": {annotation::STATE: "x", annotation::HOLD: "x"}}});
    assert!(refused(&by_pod, OWN, &both).await.is_some());
    // The administrator is not concerned.
    assert_eq!(refused(&client, OTHER, &annotate(annotation::HOLD, &json!("x"))).await, None);

    admission_stands_without_rbac(&client, &by_pod).await;
    remove(&client).await;
}

/// RBAC alone refuses the rest; were it widened by mistake, admission still would.
async fn admission_stands_without_rbac(_client: &Client, daemon: &Client) {
    let user = format!("--serviceaccount={NAMESPACE}:{DAEMONSET}");
    kubectl(&["delete", "clusterrolebinding,clusterrole", "mcx-test-wide", "--ignore-not-found"]);
    let wide = ["create", "clusterrole", "mcx-test-wide", "--verb=*", "--resource=nodes,nodes/status"];
    kubectl(&wide);
    kubectl(&["create", "clusterrolebinding", "mcx-test-wide", "--clusterrole=mcx-test-wide", &user]);
    let nodes: Api<Node> = Api::all(daemon.clone());
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let new = serde_json::from_value(json!({"metadata": {"name": "identity-new"}})).expect("a Node");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let mut answers = Vec::new();
    // The authorizer needs a moment to see the new role.
    for _ in 0..50 {
        answers = vec![
            ("create", nodes.create(&dry, &new).await.err()),
            ("delete", nodes.delete(OWN, &DeleteParams::default().dry_run()).await.err()),
            ("status", nodes.patch_status(OWN, &params, &Patch::Merge(&ready)).await.err()),
        ];
        if answers.iter().all(|(_, error)| error.as_ref().is_none_or(|e| !e.to_string().contains("cannot"))) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    kubectl(&["delete", "clusterrolebinding,clusterrole", "mcx-test-wide"]);
    for (what, error) in answers {
        let error = error.unwrap_or_else(|| panic!("{what} was let through")).to_string();
        assert!(error.contains("ValidatingAdmissionPolicy"), "{what}: {error}");
    }
}

/// What `who` may do in `namespace` beyond what every ServiceAccount may, one line each.
fn rights(who: &str, namespace: &str) -> BTreeSet<String> {
    let list = |name: &str| -> BTreeSet<String> {
        let user = format!("--as=system:serviceaccount:{NAMESPACE}:{name}");
        let text = kubectl(&["auth", "can-i", "--list", "--no-headers", &user, "-n", namespace]);
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    list(who).difference(&list("nobody")).cloned().collect()
}

#[tokio::test]
#[ignore = "needs a cluster: set MCX_RIG_KUBECONFIG"]
async fn each_identity_may_do_what_the_reviewed_list_says() {
    install();
    let mut text = String::new();
    for who in [mcx::api::DEPLOYMENT, DAEMONSET] {
        let everywhere = rights(who, "kube-public");
        let mut list = |place: String, lines: &mut dyn Iterator<Item = &String>| {
            text.extend([who, " ", &place, "\n"]);
            text.extend(lines.map(|line| format!("  {line}\n")));
        };
        list("in the whole cluster".to_owned(), &mut everywhere.iter());
        for namespace in [NAMESPACE, "default", "kube-node-lease", "kube-system"] {
            let here = rights(who, namespace);
            list(format!("in {namespace} besides"), &mut here.difference(&everywhere));
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rights.txt");
    if std::env::var("SNAPSHOTS").as_deref() == Ok("overwrite") {
        std::fs::write(file, &text).expect("written");
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(text, expected, "rights have changed: review them, then run again with SNAPSHOTS=overwrite");
}
