//! A cache of one kind of object: follows a watch, keeps of each object what decisions need and nothing else,
//! and tells when that has changed. A heartbeat that changes nothing of it wakes nobody.

use super::backoff::Backoff;
use crate::client::WATCH_SECONDS;
use futures::{Stream, StreamExt as _};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use tokio::sync::Notify;

/// What is kept of each object, by its name.
#[derive(Debug)]
pub struct Cache<V> {
    values: RwLock<BTreeMap<String, V>>,
    synced: AtomicBool,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Self { values: RwLock::default(), synced: AtomicBool::new(false) }
    }
}

impl<V: PartialEq> Cache<V> {
    /// Everything.
    pub fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, V>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Puts or removes one. Whether that changed anything.
    fn put(&self, name: String, value: Option<V>) -> bool {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) if values.get(&name) == Some(&value) => false,
            Some(value) => {
                values.insert(name, value);
                true
            }
            None => values.remove(&name).is_some(),
        }
    }

    /// Takes a complete list; what is not in it is gone, though no delete was seen. Whether that changed anything.
    fn replace(&self, list: BTreeMap<String, V>) -> bool {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *values != list;
        if changed {
            *values = list;
        }
        let first = !self.synced.swap(true, Ordering::AcqRel);
        changed || first
    }
}

/// Lists and watches for ever. `keep` says what is kept of an object; none drops it.
pub async fn follow<K, V>(
    cache: Arc<Cache<V>>,
    api: Api<K>,
    selection: watcher::Config,
    keep: impl Fn(K) -> Option<V> + Send,
    changed: Option<Arc<Notify>>,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    V: PartialEq + Send + Sync,
{
    let stream = watcher::watcher(api, selection.timeout(WATCH_SECONDS)).backoff(Backoff::for_watches());
    absorb(&cache, std::pin::pin!(stream), keep, changed.as_deref()).await;
}

async fn absorb<K, V>(
    cache: &Cache<V>,
    mut stream: std::pin::Pin<&mut (impl Stream<Item = watcher::Result<Event<K>>> + Send)>,
    keep: impl Fn(K) -> Option<V>,
    changed: Option<&Notify>,
) where
    K: Resource<DynamicType = ()>,
    V: PartialEq,
{
    let name = |object: &K| object.meta().name.clone().unwrap_or_default();
    let mut list = BTreeMap::new();
    while let Some(event) = stream.next().await {
        let news = match event {
            Ok(Event::Init) => {
                list = BTreeMap::new();
                false
            }
            Ok(Event::InitApply(object)) => {
                let name = name(&object);
                if let Some(value) = keep(object) {
                    list.insert(name, value);
                }
                false
            }
            Ok(Event::InitDone) => cache.replace(std::mem::take(&mut list)),
            Ok(Event::Apply(object)) => {
                let name = name(&object);
                cache.put(name, keep(object))
            }
            Ok(Event::Delete(object)) => cache.put(name(&object), None),
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), error = %one_line(&error), "watch interrupted, will be made anew");
                false
            }
        };
        if news && let Some(changed) = changed {
            changed.notify_one();
        }
    }
}

/// The error and its causes in one line, without saying anything twice.
pub fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt as _, stream};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    fn object(name: &str, value: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            data: Some([("value".to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        }
    }

    fn value(object: ConfigMap) -> Option<String> {
        object.data?.remove("value").filter(|v| !v.is_empty())
    }

    /// Plays events; says whether somebody was woken.
    async fn play(cache: &Cache<String>, events: Vec<watcher::Result<Event<ConfigMap>>>) -> bool {
        let changed = Notify::new();
        absorb(cache, std::pin::pin!(stream::iter(events)), value, Some(&changed)).await;
        changed.notified().now_or_never().is_some()
    }

    #[tokio::test]
    async fn r_179_what_a_new_list_lacks_is_gone_although_no_delete_was_seen() {
        let cache = Cache::default();
        let first = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(object("a", "1"))),
            Ok(Event::InitApply(object("b", "1"))),
            Ok(Event::InitDone),
        ];
        assert!(!cache.is_synced());
        assert!(play(&cache, first).await && cache.is_synced());
        let again = vec![
            Err(watcher::Error::NoResourceVersion),
            Ok(Event::Init),
            Ok(Event::InitApply(object("b", "1"))),
            Ok(Event::InitDone),
        ];
        assert!(play(&cache, again).await);
        assert_eq!(cache.read().keys().collect::<Vec<_>>(), ["b"]);
    }

    #[tokio::test]
    async fn a_change_of_nothing_that_is_kept_wakes_nobody() {
        let cache = Cache::default();
        assert!(play(&cache, vec![Ok(Event::Apply(object("a", "1")))]).await);
        let mut heartbeat = object("a", "1");
        heartbeat.metadata.resource_version = Some("2".to_owned());
        assert!(!play(&cache, vec![Ok(Event::Apply(heartbeat))]).await);
        assert!(play(&cache, vec![Ok(Event::Apply(object("a", "2")))]).await);
        assert!(play(&cache, vec![Ok(Event::Apply(object("a", "")))]).await, "no longer of interest");
        assert!(cache.read().is_empty());
        assert!(!play(&cache, vec![Ok(Event::Delete(object("a", "")))]).await);
    }

    #[tokio::test]
    async fn an_unfinished_list_hides_nothing_of_what_is_known() {
        let cache = Cache::default();
        play(&cache, vec![Ok(Event::Apply(object("a", "1")))]).await;
        play(&cache, vec![Ok(Event::Init), Ok(Event::InitApply(object("b", "1")))]).await;
        assert_eq!(cache.read().keys().collect::<Vec<_>>(), ["a"]);
    }
}
