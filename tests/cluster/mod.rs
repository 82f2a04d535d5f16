//! A real API server to test against: the one whose admin kubeconfig is in `MCX_RIG_KUBECONFIG`.

#![allow(dead_code, reason = "each test file uses its part")]

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::process::Command;

/// Path of the admin kubeconfig.
pub(crate) fn kubeconfig() -> String {
    std::env::var("MCX_RIG_KUBECONFIG").expect("MCX_RIG_KUBECONFIG names the admin kubeconfig of a cluster for tests")
}

async fn config() -> Config {
    let file = Kubeconfig::read_from(kubeconfig()).expect("the kubeconfig can be read");
    let mut config =
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("it has a cluster");
    config.default_retry = false;
    config
}

/// As the administrator.
pub(crate) async fn admin() -> Client {
    Client::try_from(config().await).expect("a client")
}

/// As whoever has `token`.
pub(crate) async fn with_token(token: &str) -> Client {
    let mut config = config().await;
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    Client::try_from(config).expect("a client")
}

/// Runs kubectl as the administrator; its output, or a panic with what it said.
pub(crate) fn kubectl(args: &[&str]) -> String {
    let output =
        Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig()).args(args).output().expect("kubectl runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "kubectl {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The custom resource definitions, the identities and the admission policy, unless they are there.
pub(crate) fn install() {
    let installed = Command::new("kubectl")
        .args(["--kubeconfig", &kubeconfig(), "get", "validatingadmissionpolicy", mcx::api::DAEMONSET])
        .output()
        .is_ok_and(|o| o.status.success());
    if !installed {
        kubectl(&["apply", "-k", concat!(env!("CARGO_MANIFEST_DIR"), "/manifests")]);
    }
    for plural in ["machineconfigs", "machineconfigpools", "machineconfigurations"] {
        let name = format!("crd/{plural}.{}", mcx::api::GROUP);
        kubectl(&["wait", "--for=condition=Established", "--timeout=60s", &name]);
    }
}

/// An API of one of the three resources that takes anything.
pub(crate) fn custom(client: &Client, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(mcx::api::GROUP, mcx::api::VERSION, kind);
    Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk))
}

/// An object of one of the three resources.
pub(crate) fn object(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    let mut value = json!({"apiVersion": mcx::api::API_VERSION, "kind": kind, "metadata": {"name": name}});
    if !spec.is_null() {
        value["spec"] = spec.clone();
    }
    serde_json::from_value(value).expect("an object")
}
