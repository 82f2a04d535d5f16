//! The daemon's requests to the API server: one Node watched, one rendered config read at a time, the policy read once per
//! update, and patches of the daemon's own annotations on its own Node. Every request has an end.
//!
//! It decides nothing: which patch is made, and when, is the machine's business. A patch says what it relies on as test
//! operations, so that it fails where the world has moved on.

use super::guard::health::{self, API_TIMEOUT};
use super::machine::OwnNode;
use crate::api::protocol::{NodeState, Phase, PhaseSince};
use crate::api::{CLUSTER, ConfigName, MachineConfig, MachineConfiguration, NodeName, Uid, annotation};
use crate::change::policy::EffectivePolicy;
use crate::client::{self, WATCH_SECONDS};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// For how long a server that asks for it is left alone at most.
const MOST_PATIENCE: Duration = Duration::from_mins(1);
/// Most bytes of an Event's note.
const NOTE_LIMIT: usize = 1024;
/// Kubeconfigs of a node's kubelet, for the API server's address alone.
const KUBELET_CONFIGS: [&str; 2] = ["etc/kubernetes/kubelet.conf", "var/lib/kubelet/kubeconfig"];

/// Why a request did not bring what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No answer, or none that says anything about the request.
    #[error("the API server does not answer: {0}")]
    Away(String),
    /// It has too much to do, and says when to come again.
    #[error("the API server asks for patience, {secs} s: {0}", secs = .1.as_secs())]
    Busy(String, Duration),
    /// Something that the request relied on is no longer so.
    #[error("the Node has changed: {0}")]
    Stale(String),
    /// It was answered, and refused.
    #[error("the API server refuses: {0}")]
    Refused(String),
    /// There is no way to the API server.
    #[error("no way to the API server: {0}")]
    NoWay(String),
}

/// The API server, as the daemon of one node uses it.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    /// How the client was made; none of one that a test made otherwise.
    way: Option<Config>,
    name: NodeName,
    nodes: Api<Node>,
    configs: Api<MachineConfig>,
    policies: Api<MachineConfiguration>,
    recorder: Recorder,
}

/// What a patch relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test<'a> {
    /// The Node's UID only.
    Uid,
    /// The UID, and that `desiredConfig` is this.
    Desired(&'a ConfigName),
    /// The UID, and that nothing at all has changed since.
    Version,
}

/// New values of the daemon's annotations; none removes one.
pub type Changes = Vec<(&'static str, Option<String>)>;

/// For `map_err`.
fn no_way(what: String) -> impl Fn(&dyn std::error::Error) -> Error {
    move |error| Error::NoWay(format!("{what}: {}", chain(error)))
}

/// How to reach the API server: `kubeconfig` when given; else as a pod, with the address from the environment or, when
/// that is absent, from the kubelet's kubeconfig in `root`. No retries by the client: every request is bounded by us.
pub async fn way(kubeconfig: Option<&Path>, root: &Path) -> Result<Config, Error> {
    let mut config = match kubeconfig {
        Some(path) => {
            let what = no_way(format!("cannot use {}", path.display()));
            let file = kube::config::Kubeconfig::read_from(path).map_err(|e| what(&e))?;
            Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default())
                .await
                .map_err(|e| what(&e))?
        }
        None => as_a_pod(root)?,
    };
    config.connect_timeout = Some(API_TIMEOUT);
    Ok(config)
}

/// Servers that the kubelets' kubeconfigs in `root` name.
fn kubelet_servers(root: &Path) -> impl Iterator<Item = String> {
    KUBELET_CONFIGS.iter().filter_map(move |path| {
        let file = kube::config::Kubeconfig::read_from(root.join(path)).ok()?;
        file.clusters.into_iter().find_map(|c| c.cluster?.server)
    })
}

fn as_a_pod(root: &Path) -> Result<Config, Error> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Config::incluster_env()
            .map_err(|e| Error::NoWay(format!("not in a pod ({}): use --kubeconfig", chain(&e))));
    }
    // With the host's network a pod may come up before the service address works, or without its environment.
    let Some(server) = kubelet_servers(root).next() else {
        return Err(Error::NoWay(format!(
            "KUBERNETES_SERVICE_HOST is not set and no kubelet kubeconfig below {} names a server: use --kubeconfig",
            root.display()
        )));
    };
    let url: axum::http::Uri = server
        .parse()
        .map_err(|_| Error::NoWay(format!("the kubelet's kubeconfig names `{server}`, which is no URL")))?;
    let mut config = Config::incluster_dns()
        .map_err(|e| Error::NoWay(format!("no service account of a pod ({}): use --kubeconfig", chain(&e))))?;
    config.cluster_url = url;
    config.tls_server_name = None;
    Ok(config)
}

/// An error and its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text.replace('\n', " ")
}

fn classify(error: &kube::Error) -> Error {
    let text = chain(error);
    match error {
        kube::Error::Api(status) => match status.code {
            409 | 422 => Error::Stale(status.message.clone()),
            code if code == 429 || code >= 500 => {
                let after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                match Duration::from_secs(after.into()).min(MOST_PATIENCE) {
                    Duration::ZERO => Error::Away(status.message.clone()),
                    after => Error::Busy(status.message.clone(), after),
                }
            }
            _ => Error::Refused(status.message.clone()),
        },
        _ => Error::Away(text),
    }
}

/// `request` with an end; what is not found is none.
async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<Option<T>, Error> {
    match tokio::time::timeout(API_TIMEOUT, request).await {
        Err(_) => Err(Error::Away(format!("no answer within {} s", API_TIMEOUT.as_secs()))),
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
        Ok(Err(error)) => Err(classify(&error)),
    }
}

impl Cluster {
    /// As the daemon of node `name`.
    pub fn connect(way: Config, name: NodeName) -> Result<Self, Error> {
        let client = client::client(way.clone()).map_err(|e| no_way("cannot make a client".into())(&e))?;
        Ok(Self { way: Some(way), ..Self::new(client, name) })
    }

    /// The same by a client that is there already.
    pub fn new(client: Client, name: NodeName) -> Self {
        let reporter = Reporter { controller: crate::api::DAEMONSET.into(), instance: Some(name.to_string()) };
        Self {
            nodes: Api::all(client.clone()),
            configs: Api::all(client.clone()),
            policies: Api::all(client.clone()),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            way: None,
            name,
        }
    }

    /// Whether the API server answers, over a new connection.
    pub async fn answers(&self) -> bool {
        match self.way.clone().map(client::client) {
            None => health::answers(&self.client).await,
            Some(Ok(client)) => health::answers(&client).await,
            Some(Err(_)) => false,
        }
    }

    /// URLs at which a process of the host reaches the API server: that of the daemon, and those of the kubelet in `root`.
    pub fn servers(&self, root: &Path) -> Vec<String> {
        let own = self.way.as_ref().map(|way| way.cluster_url.to_string());
        let mut servers: Vec<String> = own.into_iter().chain(kubelet_servers(root)).collect();
        for server in &mut servers {
            server.truncate(server.trim_end_matches('/').len());
        }
        servers.sort();
        servers.dedup();
        servers
    }

    /// The client, for whoever else needs it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The own Node whenever it changes; none when there is none. Never ends; retries with back-off and jitter.
    pub fn watch(&self) -> impl Stream<Item = Option<OwnNode>> + Send + use<> {
        let only = watcher::Config::default().fields(&format!("metadata.name={}", self.name)).timeout(WATCH_SECONDS);
        let mut listed = false;
        watcher(self.nodes.clone(), only).default_backoff().filter_map(move |event| {
            let seen = match event {
                Ok(watcher::Event::Apply(node)) => Some(Some(OwnNode::new(&node))),
                Ok(watcher::Event::InitApply(node)) => {
                    listed = true;
                    Some(Some(OwnNode::new(&node)))
                }
                Ok(watcher::Event::Init) => {
                    listed = false;
                    None
                }
                Ok(watcher::Event::InitDone) => (!listed).then_some(None),
                Ok(watcher::Event::Delete(_)) => Some(None),
                Err(error) => {
                    tracing::debug!(error = chain(&error), "the watch of the Node broke");
                    None
                }
            };
            std::future::ready(seen)
        })
    }

    /// The own Node, uncached.
    pub async fn node(&self) -> Result<Option<OwnNode>, Error> {
        Ok(bounded(self.nodes.get(self.name.as_str())).await?.map(|n| OwnNode::new(&n)))
    }

    /// A rendered config.
    pub async fn config(&self, name: &ConfigName) -> Result<Option<MachineConfig>, Error> {
        bounded(self.configs.get(name.as_str())).await
    }

    /// The policy in effect, uncached; or why there is none yet. Without `cluster` the shipped one holds.
    pub async fn policy(&self) -> Result<Result<EffectivePolicy, String>, Error> {
        let Some(cluster) = bounded(self.policies.get(CLUSTER)).await? else {
            return Ok(Ok(EffectivePolicy::shipped()));
        };
        Ok(EffectivePolicy::from_status(&cluster).ok_or_else(|| {
            let observed = cluster.status.as_ref().and_then(|s| s.observed_generation);
            format!(
                "MachineConfiguration cluster: status.observedGeneration is {}, metadata.generation is {}; the controller \
                 has not taken it up: is it running, and is condition Valid True?",
                observed.map_or_else(|| "absent".to_owned(), |g| g.to_string()),
                cluster.metadata.generation.unwrap_or_default()
            )
        }))
    }

    /// Changes own annotations of `node`, if what `test` names still holds. Answers with the Node as it is then; none
    /// when there is none any more.
    pub async fn patch(&self, node: &OwnNode, test: Test<'_>, changes: &Changes) -> Result<Option<OwnNode>, Error> {
        let patch = serde_json::from_value(Value::Array(operations(node, test, changes)))
            .map_err(|error| Error::Refused(format!("the patch is none: {error}")))?;
        let (params, patch) = (PatchParams::default(), Patch::Json::<()>(patch));
        Ok(bounded(self.nodes.patch(self.name.as_str(), &params, &patch)).await?.map(|n| OwnNode::new(&n)))
    }

    /// Publishes an Event on the own Node, in the background: a lost one loses a line in `kubectl describe`.
    pub fn event(&self, uid: &Uid, warning: bool, reason: &'static str, note: &str) {
        let on = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(self.name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.into(),
            note: Some(annotation::cut(note, NOTE_LIMIT)),
            action: reason.into(),
            secondary: None,
        };
        let recorder = self.recorder.clone();
        tokio::spawn(async move {
            match tokio::time::timeout(API_TIMEOUT * 2, recorder.publish(&event, &on)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(reason, error = chain(&error), "cannot publish an event"),
                Err(_) => tracing::warn!(reason, "cannot publish an event: no answer from the API server"),
            }
        });
    }
}

/// The changes of a report: Done proves `current`, Degraded leaves `currentConfig` alone.
pub fn report(state: NodeState, reason: Option<&str>, current: &ConfigName) -> Changes {
    let mut changes = vec![
        (annotation::STATE, Some(state.as_str().to_owned())),
        (annotation::REASON, reason.map(str::to_owned)),
        (annotation::PHASE, None),
    ];
    if state == NodeState::Done {
        changes.push((annotation::CURRENT_CONFIG, (!current.is_empty()).then(|| current.to_string())));
    }
    changes
}

/// The changes of a claim.
pub fn claim(quiet: bool, now: Timestamp) -> Changes {
    let mut changes = vec![phase(Phase::Claimed, now)];
    if !quiet {
        changes.push((annotation::STATE, Some(NodeState::Working.as_str().to_owned())));
        changes.push((annotation::REASON, None));
    }
    changes
}

/// The change of the phase.
pub fn phase(phase: Phase, now: Timestamp) -> (&'static str, Option<String>) {
    (annotation::PHASE, Some(PhaseSince { phase, since: now }.to_string()))
}

/// The JSON patch.
fn operations(node: &OwnNode, test: Test<'_>, changes: &Changes) -> Vec<Value> {
    let path = |key: &str| format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"));
    let version = json!({"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version});
    let mut list = vec![json!({"op": "test", "path": "/metadata/uid", "value": node.uid.as_str()})];
    match test {
        Test::Desired(desired) => {
            list.push(json!({"op": "test", "path": path(annotation::DESIRED_CONFIG), "value": desired.as_str()}));
        }
        Test::Version => list.push(version.clone()),
        Test::Uid => {}
    }
    if !node.has_annotations {
        // Making the map would wipe one that somebody made meanwhile.
        if test != Test::Version {
            list.push(version);
        }
        list.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
    }
    for (key, value) in changes {
        // To remove what is not there is an error, so it is put there first.
        list.push(json!({"op": "add", "path": path(key), "value": value.as_deref().unwrap_or_default()}));
        if value.is_none() {
            list.push(json!({"op": "remove", "path": path(key)}));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> OwnNode {
        OwnNode { uid: "u1".into(), resource_version: "7".into(), has_annotations: true, ..OwnNode::default() }
    }

    fn paths(list: &[Value]) -> Vec<String> {
        list.iter().map(|o| format!("{} {}", o["op"].as_str().unwrap(), o["path"].as_str().unwrap())).collect()
    }

    #[test]
    fn a_server_is_left_alone_as_long_as_it_asks_for_but_not_for_ever() {
        for (asked, given) in [(0, None), (7, Some(7)), (86_400, Some(60))] {
            let status = json!({"code": 429, "message": "m", "details": {"retryAfterSeconds": asked}});
            let error = kube::Error::Api(serde_json::from_value(status).unwrap());
            let after = match classify(&error) {
                Error::Busy(_, after) => Some(after.as_secs()),
                _ => None,
            };
            assert_eq!(after, given);
        }
    }

    #[test]
    fn a_claim_tests_the_config_that_it_claims() {
        let list = operations(&own(), Test::Desired(&"rendered-w-1".into()), &claim(false, Timestamp::UNIX_EPOCH));
        assert_eq!(
            paths(&list)[..2],
            ["test /metadata/uid", "test /metadata/annotations/machineconfiguration.alauda.io~1desiredConfig"]
        );
        assert_eq!(list[1]["value"], "rendered-w-1");
    }

    #[test]
    fn a_retry_leaves_state_and_reason_until_it_has_worked() {
        let keys: Vec<&str> = claim(true, Timestamp::UNIX_EPOCH).iter().map(|(k, _)| *k).collect();
        assert_eq!(keys, [annotation::PHASE]);
    }

    #[test]
    fn degraded_never_touches_current_and_done_always_does() {
        let keys = |c: Changes| c.into_iter().map(|(k, _)| k).collect::<Vec<_>>();
        assert!(!keys(report(NodeState::Degraded, Some("x"), &"c".into())).contains(&annotation::CURRENT_CONFIG));
        let done = report(NodeState::Done, None, &ConfigName::default());
        assert!(done.contains(&(annotation::CURRENT_CONFIG, None)), "the empty config has no name to show");
    }

    #[test]
    fn only_own_annotations_are_ever_written() {
        let all = [
            report(NodeState::Done, None, &"c".into()),
            claim(false, Timestamp::UNIX_EPOCH),
            vec![phase(Phase::Applying, Timestamp::UNIX_EPOCH)],
        ];
        for (key, _) in all.iter().flatten() {
            assert!(annotation::DAEMON_OWNED.contains(key), "{key}");
        }
    }

    #[test]
    fn an_absent_annotation_can_be_removed() {
        let list = operations(&own(), Test::Uid, &vec![(annotation::REASON, None)]);
        let key = "machineconfiguration.alauda.io~1reason";
        assert_eq!(
            paths(&list)[1..],
            [format!("add /metadata/annotations/{key}"), format!("remove /metadata/annotations/{key}")]
        );
    }

    #[test]
    fn a_node_without_annotations_gets_its_map_only_if_nothing_else_has_made_it() {
        let bare = OwnNode { has_annotations: false, ..own() };
        let list = paths(&operations(&bare, Test::Uid, &vec![phase(Phase::Claimed, Timestamp::UNIX_EPOCH)]));
        assert_eq!(list[..3], ["test /metadata/uid", "test /metadata/resourceVersion", "add /metadata/annotations"]);
    }
}
