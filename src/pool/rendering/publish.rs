//! What the leader writes of a rendering: the rendered config, then `spec.configuration` of the pool; and what it puts
//! back or deletes. Every write is guarded; one that meets a conflict is decided again from what is there then.

use super::collect::{self, Candidate};
use super::{PoolRendering, Renderer, same_configuration};
use crate::api::machine_config_pool::{ConfigurationReference, SourceReference};
use crate::api::{API_VERSION, ConfigName, IgnitionConfig, MachineConfig, MachineConfigPool, annotation, event, label};
use crate::pool::cache::one_line;
use crate::pool::caches::Objects;
use crate::pool::door::Error;
use crate::pool::view::NodeView;
use crate::pool::world::{Leader, Subject, World};
use crate::render::Rendered;
use crate::render::items::Items;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams, PartialObjectMeta};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Unused rendered configs are looked for this often.
const COLLECT_EVERY: Duration = Duration::from_mins(1);
/// Nodes in one answer of the API server.
const NODES_IN_A_PAGE: u32 = 500;

impl Renderer {
    /// Writes what is not as it should be. A pool that fails does not stop the others; the first error is returned.
    pub async fn publish(&mut self, leader: &Leader, world: &mut World, objects: &Objects) -> Result<(), Error> {
        let mut first_error = None;
        let names: Vec<_> = self.pools.keys().cloned().collect();
        for name in names {
            let Some(pool) = world.pools.get(&name).cloned() else { continue };
            let Some(mut rendering) = self.pools.remove(&name) else { continue };
            tell_errors(leader, &pool, &mut rendering).await;
            let result = self.publish_pool(leader, &pool, &mut rendering, objects).await;
            rendering.note(&result);
            self.pools.insert(name, rendering);
            if let Err(error) = result {
                first_error.get_or_insert(error);
            }
        }
        for step in [self.put_back(leader, world, objects).await, self.collect(leader, world, objects).await] {
            if let Err(error) = step {
                first_error.get_or_insert(error);
            }
        }
        self.tell_unselected(leader, world, objects).await;
        self.show(world, Instant::now());
        first_error.map_or(Ok(()), Err)
    }

    async fn publish_pool(
        &mut self,
        leader: &Leader,
        pool: &Arc<MachineConfigPool>,
        rendering: &mut PoolRendering,
        objects: &Objects,
    ) -> Result<(), Error> {
        let wanted = match rendering.rendered().filter(|_| rendering.settle.is_none()) {
            Some(rendered) if !self.ensure_config(leader, pool, rendered, objects).await? => return Ok(()),
            Some(rendered) => Some(reference(rendered)),
            None => rendering.target.clone(),
        };
        let Some(target) = wanted else { return Ok(()) };
        // The pool in the world may already show our target instead of what the API has: ask the cache for that.
        let Some(stored) = objects.pools.get(pool.name()) else { return Ok(()) };
        if same_configuration(stored, &target) {
            rendering.target = Some(target);
            return Ok(());
        }
        if leader.door.change_pool_spec(stored, json!({"configuration": as_patch(&target)})).await?.is_some() {
            let name = target.name.as_deref().unwrap_or_default();
            let sources = target.source.as_ref().map_or(0, Vec::len);
            tracing::info!(pool = stored.name(), config = name, sources, "wrote the pool's target");
            if stored.target() != Some(name) {
                let note = format!("{name} from {sources} sources is the target");
                leader.events.publish(&Subject::Pool(Arc::clone(pool)), false, event::RENDERED, note).await;
            }
            // Only now: nothing is handed out that the pool does not name.
            rendering.target = Some(target);
        }
        Ok(())
    }

    /// Whether the rendered config is there and right.
    async fn ensure_config(
        &mut self,
        leader: &Leader,
        pool: &Arc<MachineConfigPool>,
        rendered: &Rendered,
        objects: &Objects,
    ) -> Result<bool, Error> {
        let wanted = rendered.to_object(pool);
        let cached = match objects.configs.get(rendered.name.as_str()) {
            Some(Ok(found)) => Some(Arc::clone(found)),
            Some(Err(_)) | None => None,
        };
        let found = match cached {
            Some(found) => found,
            None => match leader.door.create(&wanted).await? {
                Some(created) => {
                    tracing::info!(config = %rendered.name, pool = pool.name(), "created a rendered config");
                    self.right(&created);
                    if self.kept.insert(rendered.name.clone(), Arc::new(created)).is_some() {
                        tell_put_back(leader, pool, &rendered.name, "deleted").await;
                    }
                    return Ok(true);
                }
                None => match leader.door.config(&rendered.name).await? {
                    Some(found) => Arc::new(found),
                    None => return Ok(false),
                },
            },
        };
        if self.is_known_right(&found) {
            return Ok(true);
        }
        if is_as_rendered(&found, &wanted, &rendered.items) {
            self.right(&found);
            return Ok(true);
        }
        let back = MachineConfig { metadata: under(&wanted.metadata, &found.metadata), spec: wanted.spec };
        let Some(written) = leader.door.replace(&back).await? else { return Ok(false) };
        self.right(&written);
        tell_put_back(leader, pool, &rendered.name, "edited").await;
        self.kept.insert(rendered.name.clone(), Arc::new(written));
        Ok(true)
    }

    /// Puts back what was in use and is edited or gone. Targets that follow their sources are looked after above.
    async fn put_back(&mut self, leader: &Leader, world: &World, objects: &Objects) -> Result<(), Error> {
        let followed: BTreeSet<ConfigName> = self
            .pools
            .values()
            .filter(|p| p.settle.is_none())
            .filter_map(|p| Some(p.rendered()?.name.clone()))
            .collect();
        let kept = self.kept.iter().filter(|(name, _)| !followed.contains(*name));
        let kept: Vec<_> = kept.map(|(name, copy)| (name.clone(), Arc::clone(copy))).collect();
        for (name, copy) in kept {
            let metadata = ObjectMeta {
                name: copy.metadata.name.clone(),
                labels: copy.metadata.labels.clone(),
                annotations: copy.metadata.annotations.clone(),
                owner_references: owners_that_exist(&copy, world),
                ..ObjectMeta::default()
            };
            let wanted = MachineConfig { metadata, spec: copy.spec.clone() };
            let what = match objects.configs.get(name.as_str()) {
                Some(Ok(found)) if found.spec == copy.spec && found.is_rendered() => continue,
                Some(Ok(found)) if self.is_known_right(found) => continue,
                Some(Ok(found)) => {
                    let metadata = under(&wanted.metadata, &found.metadata);
                    let Some(written) = leader.door.replace(&MachineConfig { metadata, ..wanted }).await? else {
                        continue;
                    };
                    self.right(&written);
                    "edited"
                }
                // Unreadable: it cannot be replaced under a version that we know.
                Some(Err(_)) => continue,
                None => {
                    let Some(written) = leader.door.create(&wanted).await? else { continue };
                    self.right(&written);
                    "deleted"
                }
            };
            let pool = copy.metadata.labels.as_ref().and_then(|l| l.get(label::RENDERED));
            if let Some(pool) = pool.and_then(|p| world.pools.get(p.as_str())) {
                tell_put_back(leader, pool, &name, what).await;
            } else {
                tracing::warn!(config = %name, what, "put back a rendered config that is in use");
            }
        }
        Ok(())
    }

    /// Deletes rendered configs that nothing uses. What is in use is read uncached just before.
    async fn collect(&mut self, leader: &Leader, world: &World, objects: &Objects) -> Result<(), Error> {
        let now = Instant::now();
        if self.collected.is_some_and(|last| now.duration_since(last) < COLLECT_EVERY) {
            return Ok(());
        }
        self.collected = Some(now);
        let candidates: Vec<Candidate> = objects.configs.values().flatten().filter_map(|c| Candidate::new(c)).collect();
        let (keep, clock) = (leader.settings.keep_rendered, Timestamp::now());
        let (pools, nodes) = (objects.pools.values().map(AsRef::as_ref), world.nodes.values().map(AsRef::as_ref));
        let names: BTreeSet<String> = objects.pools.keys().cloned().collect();
        if collect::collectable(&candidates, &collect::referenced(pools, nodes), &names, keep, clock).is_empty() {
            return Ok(());
        }
        // Only this leader hands out, and not while this runs: what nothing names now is named by nothing later.
        let views = names_on_nodes(leader).await?;
        let (pools, all) = (leader.door.pools(), ListParams::default());
        let pools = leader.door.bounded(|| "list MachineConfigPools".to_owned(), pools.list(&all)).await?;
        let names = pools.items.iter().map(|p| p.name().to_owned()).collect();
        let used = collect::referenced(&pools.items, &views);
        for name in collect::collectable(&candidates, &used, &names, keep, clock) {
            if let Some(Ok(config)) = objects.configs.get(name.as_str())
                && leader.door.delete(config.as_ref()).await?
            {
                tracing::info!(config = %name, "deleted a rendered config that nothing uses");
            }
        }
        Ok(())
    }

    /// Warns once of each source that no pool selects, when no pool is about to change.
    async fn tell_unselected(&mut self, leader: &Leader, world: &World, objects: &Objects) {
        if self.pools.is_empty() || self.pools.values().any(|p| p.settle.is_some()) {
            return;
        }
        let sources = Self::unselected(world, objects);
        let key = |s: &MachineConfig| (s.name().to_owned(), s.metadata.uid.clone().unwrap_or_default());
        let now: BTreeSet<_> = sources.iter().map(|s| key(s)).collect();
        for source in sources.into_iter().filter(|s| !self.told.contains(&key(s))) {
            let note = "no MachineConfigPool selects this MachineConfig, so it does nothing; \
                        give it the label that a pool's machineConfigSelector asks for";
            tracing::warn!(source = source.name(), "no pool selects this MachineConfig");
            leader.events.publish(&Subject::Source(source), true, event::SOURCE_NOT_SELECTED, note.to_owned()).await;
        }
        self.told = now;
    }

    fn right(&mut self, config: &MachineConfig) {
        if let Some(version) = &config.metadata.resource_version {
            self.verified.insert(config.name().into(), version.clone());
        }
    }

    fn is_known_right(&self, config: &MachineConfig) -> bool {
        let version = config.metadata.resource_version.as_ref();
        version.is_some() && self.verified.get(config.name()) == version
    }
}

impl PoolRendering {
    fn note(&mut self, result: &Result<(), Error>) {
        match result {
            Ok(()) => {
                self.write_error = None;
                self.failing_since = None;
            }
            Err(error) => {
                self.write_error = Some(annotation::cut(&one_line(error), 500));
                self.failing_since.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// An Event when the errors of a pool have changed.
async fn tell_errors(leader: &Leader, pool: &Arc<MachineConfigPool>, rendering: &mut PoolRendering) {
    if rendering.settle.is_some() {
        return;
    }
    let errors: Vec<String> = rendering.errors().map(ToString::to_string).collect();
    if errors == rendering.told {
        return;
    }
    if let Some(first) = errors.first() {
        let more = if errors.len() > 1 { format!(" (and {} more)", errors.len() - 1) } else { String::new() };
        tracing::warn!(pool = pool.name(), errors = errors.len(), first, "the pool's sources are refused");
        let note = format!("{first}{more}");
        leader.events.publish(&Subject::Pool(Arc::clone(pool)), true, event::RENDER_FAILED, note).await;
    }
    rendering.told = errors;
}

async fn tell_put_back(leader: &Leader, pool: &Arc<MachineConfigPool>, name: &ConfigName, what: &str) {
    tracing::warn!(config = %name, what, "put back a rendered config");
    let note = format!("{name} was {what} and is put back; change its sources instead");
    leader.events.publish(&Subject::Pool(Arc::clone(pool)), true, event::RENDERED_PUT_BACK, note).await;
}

/// All Nodes, uncached, with what is in their metadata only.
async fn names_on_nodes(leader: &Leader) -> Result<Vec<NodeView>, Error> {
    let api: Api<PartialObjectMeta<Node>> = Api::all(leader.door.client().clone());
    let mut params = ListParams::default().limit(NODES_IN_A_PAGE);
    let mut views = Vec::new();
    loop {
        let page = leader.door.bounded(|| "list Nodes".to_owned(), api.list(&params)).await?;
        let nodes = page.items.into_iter().map(|n| Node { metadata: n.metadata, ..Node::default() });
        views.extend(nodes.map(|node| NodeView::new(&node)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(views),
        }
    }
}

/// `spec.configuration` for a rendering.
fn reference(rendered: &Rendered) -> ConfigurationReference {
    let source = |name: &String| SourceReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some("MachineConfig".to_owned()),
        name: Some(name.clone()),
        ..SourceReference::default()
    };
    ConfigurationReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some("MachineConfig".to_owned()),
        name: Some(rendered.name.to_string()),
        source: Some(rendered.sources.iter().map(source).collect()),
        ..ConfigurationReference::default()
    }
}

/// As a merge patch: what is not ours in the object is taken away by name.
fn as_patch(target: &ConfigurationReference) -> Value {
    json!({
        "apiVersion": target.api_version, "kind": target.kind, "name": target.name, "source": target.source,
        "fieldPath": target.field_path, "namespace": target.namespace,
        "resourceVersion": target.resource_version, "uid": target.uid
    })
}

/// Whether a rendered config that is there means what was rendered, however it is written (another mcx version may
/// encode it in another way), and is known as ours.
fn is_as_rendered(found: &MachineConfig, wanted: &MachineConfig, items: &Items) -> bool {
    let label = |c: &MachineConfig| c.metadata.labels.as_ref().and_then(|l| l.get(label::RENDERED)).cloned();
    let owner = |c: &MachineConfig| c.metadata.owner_references.iter().flatten().map(|o| o.uid.clone()).next();
    label(found) == label(wanted) && owner(found) == owner(wanted) && has_items(found, Some(&wanted.spec.config), items)
}

fn has_items(found: &MachineConfig, written: Option<&Option<IgnitionConfig>>, items: &Items) -> bool {
    if found.spec.kernel_arguments.as_ref().is_some_and(|a| !a.is_empty()) {
        return false;
    }
    if written == Some(&found.spec.config) {
        return true;
    }
    found.spec.config.as_ref().is_some_and(|c| Items::from_config(c).is_ok_and(|found| found == *items))
}

/// Whether a rendered config has the contents that its name stands for. One that another mcx version made may hash in
/// another way: it is believed.
pub(super) fn says_what_its_name_says(config: &MachineConfig) -> bool {
    let maker = config.metadata.annotations.as_ref().and_then(|a| a.get(annotation::GENERATED_BY));
    if maker.map(String::as_str) != Some(env!("CARGO_PKG_VERSION")) {
        return true;
    }
    let items = config.spec.config.as_ref().and_then(|c| Items::from_config(c).ok());
    items.is_some_and(|items| config.name().ends_with(&format!("-{}", items.hash())))
}

/// `wanted` as the next version of what is there, with foreign labels and annotations left alone.
fn under(wanted: &ObjectMeta, found: &ObjectMeta) -> ObjectMeta {
    let mut meta = wanted.clone();
    meta.resource_version.clone_from(&found.resource_version);
    meta.uid.clone_from(&found.uid);
    meta.finalizers.clone_from(&found.finalizers);
    for (ours, theirs) in [(&mut meta.labels, &found.labels), (&mut meta.annotations, &found.annotations)] {
        for (key, value) in theirs.iter().flatten() {
            ours.get_or_insert_default().entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    meta
}

/// Owners that are gone are left out: with one the garbage collector would delete the object again at once.
fn owners_that_exist(
    copy: &MachineConfig,
    world: &World,
) -> Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>> {
    let exists = |uid: &str| world.pools.values().any(|p| p.metadata.uid.as_deref() == Some(uid));
    let owners = copy.metadata.owner_references.iter().flatten().filter(|o| exists(&o.uid)).cloned();
    Some(owners.collect()).filter(|o: &Vec<_>| !o.is_empty())
}

#[cfg(test)]
mod tests;
