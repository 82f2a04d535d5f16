//! Empties a cordoned node: lists its pods, evicts those that go, tells whom it waits for.
//!
//! Evictions are asked for with the pod's UID, so that a replacement of the same name is never hit, and side by side, so
//! that one slow answer does not hold the others. Nothing is remembered that the API does not know, but when to
//! ask again.

use super::answer::{self, Answer};
use super::budgets::Budget;
use super::decide::{self, Emptying};
use super::pods::{BoundPod, Fate, fate};
use crate::api::{NodeName, Uid};
use crate::pool::backoff::elapsed;
use crate::pool::door::{Door, Error, TIMEOUT};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams, PostParams};
use kube::core::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Evictions of one node that run at a time.
const SIDE_BY_SIDE: usize = 10;

/// No eviction begins later than this in one round: then the Node is read again, since an uncordon by hand or another
/// request ends this one.
const ROUND: Duration = Duration::from_secs(2);

/// When to ask again for what was refused.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusals {
    by_key: BTreeMap<Uid, Refusal>,
}

#[derive(Debug, Clone)]
struct Refusal {
    /// In a row.
    count: u32,
    /// When it was refused last, and how long it is left alone.
    at: Timestamp,
    wait: Duration,
    /// For people.
    why: String,
}

/// Where a round has got to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Round {
    /// All that had to go is gone. What came after the cordon is named.
    Empty {
        /// Pods that came after the cordon.
        late: Vec<String>,
    },
    /// Pods are still there.
    Waiting {
        /// What there is to say of them; empty when all goes its usual way.
        named: Vec<String>,
    },
}

/// One round for `node`: fresh list, evictions that are due, result.
pub(super) async fn round(
    door: &Door,
    node: &NodeName,
    node_ready: bool,
    drain: &Emptying,
    namespace: &str,
    refusals: &mut Refusals,
    now: Timestamp,
) -> Result<Round, Error> {
    let bound = list(door, node, namespace).await?;
    let daemon_sets = living(door, &bound).await?;
    let fates: Vec<(BoundPod, Fate)> = bound
        .into_iter()
        .map(|pod| {
            let fate = fate(&pod, &daemon_sets, Some(drain.cordoned));
            (pod, fate)
        })
        .filter(|(_, fate)| *fate != Fate::Stays)
        .collect();
    refusals.forget_all_but(&fates);

    let due: Vec<(BoundPod, Fate)> = fates
        .iter()
        .filter(|(pod, fate)| pod.ends_at.is_none() && refusals.is_due(&key(pod, *fate), now))
        .cloned()
        .collect();
    let begun = tokio::time::Instant::now();
    let answers: Vec<(BoundPod, Fate, Result<Answer, Error>)> = futures::stream::iter(due)
        .map(|(pod, fate)| async move {
            if begun.elapsed() >= ROUND {
                return None;
            }
            let answer = evict(door, &pod).await;
            Some((pod, fate, answer))
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    for (pod, fate, answer) in answers {
        refusals.note(door, &pod, fate, answer?, now).await?;
    }

    if fates.iter().all(|(_, fate)| *fate == Fate::Late) {
        return Ok(Round::Empty { late: fates.iter().map(|(pod, _)| decide::late(pod)).collect() });
    }
    Ok(Round::Waiting { named: refusals.named(&fates, node_ready, drain, now) })
}

/// What refusals of a pod are counted under: itself, or for late ones what keeps making them, so that a controller that
/// puts pods past the scheduler is not answered every second.
fn key(pod: &BoundPod, fate: Fate) -> Uid {
    match (fate, &pod.owner) {
        (Fate::Late, Some(owner)) => owner.clone(),
        _ => pod.uid.clone(),
    }
}

impl Refusals {
    fn is_due(&self, key: &Uid, now: Timestamp) -> bool {
        self.by_key.get(key).is_none_or(|r| elapsed(r.at, now) >= r.wait)
    }

    fn forget_all_but(&mut self, fates: &[(BoundPod, Fate)]) {
        let there: BTreeSet<Uid> = fates.iter().map(|(pod, fate)| key(pod, *fate)).collect();
        self.by_key.retain(|uid, _| there.contains(uid));
    }

    async fn note(
        &mut self,
        door: &Door,
        pod: &BoundPod,
        fate: Fate,
        answer: Answer,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (why, after) = match answer {
            // A late one is evicted once; its successors wait longer and longer.
            Answer::Accepted if fate == Fate::Late => (String::new(), None),
            Answer::Accepted | Answer::Gone => {
                self.by_key.remove(&key(pod, fate));
                return Ok(());
            }
            Answer::Later { why, after } => (why, after),
            Answer::SeveralBudgets => (answer::several_budgets(pod, &budgets(door, pod).await?), None),
        };
        let key = key(pod, fate);
        let count = self.by_key.get(&key).map_or(1, |r| r.count.saturating_add(1));
        let wait = answer::retry_after(count, after, key.as_str());
        self.by_key.insert(key, Refusal { count, at: now, wait, why });
        Ok(())
    }

    /// Refused pods first, then those that end slowly, then late ones.
    fn named(&self, fates: &[(BoundPod, Fate)], node_ready: bool, drain: &Emptying, now: Timestamp) -> Vec<String> {
        let (late, going): (Vec<_>, Vec<_>) = fates.iter().partition(|(_, fate)| *fate == Fate::Late);
        let refused = going
            .iter()
            .filter(|(pod, _)| pod.ends_at.is_none())
            .filter_map(|(pod, _)| self.by_key.get(&pod.uid).map(|r| r.why.clone()));
        let ending = going.iter().filter_map(|(pod, _)| decide::ending(pod, node_ready, drain, now));
        refused.chain(ending).chain(late.iter().map(|(pod, _)| decide::late(pod))).collect()
    }
}

/// All pods bound to the node, in the order of their names. A consistent read: a pod that is missing from it is gone.
async fn list(door: &Door, node: &NodeName, namespace: &str) -> Result<Vec<BoundPod>, Error> {
    let api: Api<Pod> = Api::all(door.client().clone());
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = door.bounded(|| format!("list the pods of Node {node}"), api.list(&params)).await?;
    let mut bound: Vec<BoundPod> = pods.items.iter().map(|pod| BoundPod::new(pod, namespace)).collect();
    bound.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(bound)
}

/// UIDs of the `DaemonSets` of `pods` that exist.
async fn living(door: &Door, pods: &[BoundPod]) -> Result<BTreeSet<Uid>, Error> {
    let wanted: BTreeSet<(String, String)> = pods
        .iter()
        .filter_map(|p| p.daemon_set.as_ref().map(|(name, _)| (p.namespace.clone(), name.clone())))
        .collect();
    let found: Vec<Result<Option<DaemonSet>, Error>> = futures::stream::iter(wanted)
        .map(|(namespace, name)| async move {
            let api: Api<DaemonSet> = Api::namespaced(door.client().clone(), &namespace);
            door.bounded(|| format!("read DaemonSet {namespace}/{name}"), api.get_opt(&name)).await
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .collect()
        .await;
    let mut uids = BTreeSet::new();
    for set in found {
        uids.extend(set?.and_then(|s| s.metadata.uid).map(Uid::from));
    }
    Ok(uids)
}

/// Asks for the eviction of this very pod. Written out, since the call of kube 5 sends its options under a name that
/// the API server does not know, and the UID would be lost.
async fn evict(door: &Door, pod: &BoundPod) -> Result<Answer, Error> {
    let api: Api<Pod> = Api::namespaced(door.client().clone(), &pod.namespace);
    let eviction = Eviction {
        metadata: ObjectMeta {
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            preconditions: Some(Preconditions { uid: Some(pod.uid.to_string()), resource_version: None }),
            ..DeleteOptions::default()
        }),
    };
    let params = PostParams::default();
    let request = api.create_subresource::<_, Status>("eviction", &pod.name, &params, &eviction);
    match door.bounded(|| format!("evict {}", pod.title()), request).await {
        Ok(_) => Ok(Answer::Accepted),
        Err(Error::Api { source, what }) => match *source {
            kube::Error::Api(status) => Ok(answer::refusal(pod, &status)),
            other => Err(Error::Api { what, source: Box::new(other) }),
        },
        // A webhook that hangs holds this pod and no other.
        Err(Error::Timeout { .. }) => Ok(Answer::Later {
            why: format!("{}: no answer to the eviction within {} s", pod.title(), TIMEOUT.as_secs()),
            after: None,
        }),
        Err(error) => Err(error),
    }
}

/// Names of the budgets that select `pod`.
async fn budgets(door: &Door, pod: &BoundPod) -> Result<Vec<String>, Error> {
    let namespace = &pod.namespace;
    let api: Api<PodDisruptionBudget> = Api::namespaced(door.client().clone(), namespace);
    let all = door
        .bounded(|| format!("list the PodDisruptionBudgets of namespace {namespace}"), api.list(&ListParams::default()))
        .await?;
    let protecting = all.items.iter().map(Budget::new).filter(|budget| budget.protects(pod));
    let mut names: Vec<String> = protecting.map(|budget| budget.title()).collect();
    names.sort();
    Ok(names)
}
