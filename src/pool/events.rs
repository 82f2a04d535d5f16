//! Events on the objects that people look at: published in the background, repeated ones counted, failures logged.
//!
//! Nothing waits for an Event: a lost one loses a line in `kubectl describe`, never a decision.

use super::backoff::elapsed;
use super::cache::one_line;
use crate::api::{API_VERSION, MachineConfig, MachineConfigPool, NodeName, Uid, annotation};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Most bytes of a note that the API server takes.
const NOTE_LIMIT: usize = 1024;
/// Events of objects without a namespace live here, as those of the kubelet do.
const NAMESPACE: &str = "default";
/// Events that wait to be published; more are dropped.
const QUEUE: usize = 512;
/// A repetition within this time is counted on the first one.
const REPEATED: Duration = Duration::from_mins(10);
/// Longest time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Publishes Events on objects.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Note>,
}

/// What an Event is published on.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A Node, by name and UID.
    Node(NodeName, Uid),
    /// A pool.
    Pool(Arc<MachineConfigPool>),
    /// A source.
    Source(Arc<MachineConfig>),
}

/// One Event to publish.
#[derive(Debug)]
struct Note {
    on: ObjectReference,
    warning: bool,
    reason: &'static str,
    text: String,
}

/// Two Events with the same key are one that happened twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    uid: String,
    reason: &'static str,
    text: String,
}

/// An Event that was published lately.
#[derive(Debug)]
struct Published {
    name: String,
    count: i32,
    at: Timestamp,
}

impl Events {
    /// An outlet, and the task that serves it until all outlets are gone. `component` and `instance` sign the Events.
    pub fn start(client: Client, component: &'static str, instance: String) -> (Self, impl Future<Output = ()>) {
        let (queue, notes) = mpsc::channel(QUEUE);
        (Self { queue }, publish_all(client, component, instance, notes))
    }

    /// An outlet that leads nowhere, for tests of what publishes.
    pub fn discarding() -> Self {
        Self { queue: mpsc::channel(1).0 }
    }

    /// Publishes a `Normal` or (when `warning`) `Warning` Event with a reason of [`crate::api::event`]. Returns at once.
    #[allow(clippy::unused_async, reason = "callers treat it as the request it stands for")]
    pub async fn publish(&self, on: &Subject, warning: bool, reason: &'static str, note: String) {
        let note = Note { on: on.reference(), warning, reason, text: annotation::cut(&note, NOTE_LIMIT) };
        if let Err(mpsc::error::TrySendError::Full(note)) = self.queue.try_send(note) {
            tracing::warn!(reason, note = note.text, "event dropped: too many wait");
        }
    }
}

impl Subject {
    fn reference(&self) -> ObjectReference {
        let ours = |kind: &str, meta: &ObjectMeta| ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(kind.to_owned()),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        };
        match self {
            Self::Node(name, uid) => ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(name.to_string()),
                uid: Some(uid.to_string()),
                ..ObjectReference::default()
            },
            Self::Pool(pool) => ours("MachineConfigPool", pool.meta()),
            Self::Source(source) => ours("MachineConfig", source.meta()),
        }
    }
}

async fn publish_all(client: Client, component: &'static str, instance: String, mut notes: mpsc::Receiver<Note>) {
    let api: Api<Event> = Api::namespaced(client, NAMESPACE);
    let mut published: BTreeMap<Key, Published> = BTreeMap::new();
    while let Some(note) = notes.recv().await {
        let now = Timestamp::now();
        published.retain(|_, p| elapsed(p.at, now) < REPEATED);
        let key = Key { uid: note.on.uid.clone().unwrap_or_default(), reason: note.reason, text: note.text.clone() };
        let request = publish_one(&api, component, &instance, &note, published.get(&key), now);
        match tokio::time::timeout(TIMEOUT, request).await {
            Ok(Ok(done)) => {
                published.insert(key, done);
            }
            Ok(Err(error)) => {
                tracing::warn!(reason = note.reason, error = %one_line(&error), "cannot publish an event");
            }
            Err(_) => tracing::warn!(reason = note.reason, "cannot publish an event: no answer from the API server"),
        }
    }
}

async fn publish_one(
    api: &Api<Event>,
    component: &'static str,
    instance: &str,
    note: &Note,
    earlier: Option<&Published>,
    now: Timestamp,
) -> kube::Result<Published> {
    if let Some(earlier) = earlier {
        let count = earlier.count.saturating_add(1);
        let series = EventSeries { count, last_observed_time: MicroTime(now) };
        match api.patch(&earlier.name, &PatchParams::default(), &Patch::Merge(json!({"series": series}))).await {
            Ok(_) => return Ok(Published { name: earlier.name.clone(), count, at: now }),
            // The API server drops Events after an hour: begin anew.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let event = event(component, instance, note, now);
    api.create(&PostParams::default(), &event).await?;
    Ok(Published { name: event.metadata.name.unwrap_or_default(), count: 1, at: now })
}

fn event(component: &str, instance: &str, note: &Note, now: Timestamp) -> Event {
    let object = note.on.name.as_deref().unwrap_or(component);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{object}.{:x}", now.as_nanosecond())),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some(note.reason.to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(note.text.clone()),
        reason: Some(note.reason.to_owned()),
        regarding: Some(note.on.clone()),
        reporting_controller: Some(component.to_owned()),
        reporting_instance: Some(annotation::cut(instance, 128)),
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
