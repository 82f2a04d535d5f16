//! Whether the way from one rendered config to another does anything to the running services of a node.
//!
//! Asked after a hand-out, to know whether the node's kubelet has to prove itself afterwards. "Not known" is "no".

use crate::api::ConfigName;
use crate::change::policy::EffectivePolicy;
use crate::change::{ChangeSet, actions};
use crate::pool::door::Door;
use crate::pool::world::World;
use crate::render::items::Items;
use std::collections::BTreeMap;

/// Most answers that are remembered: they are asked for in runs of the same two configs.
const REMEMBERED: usize = 64;

/// Answers by configs and the policy's generation.
#[derive(Debug, Default)]
pub(super) struct Harmless(BTreeMap<(Option<ConfigName>, ConfigName, i64), bool>);

impl Harmless {
    /// Whether a node that has `from` keeps all its services as they are on the way to `to`.
    pub(super) async fn is(
        &mut self,
        door: &Door,
        world: &World,
        from: Option<&ConfigName>,
        to: Option<&ConfigName>,
    ) -> bool {
        let (Some(to), Some(policy)) = (to, &world.policy) else { return false };
        let key = (from.cloned(), to.clone(), policy.generation);
        if let Some(known) = self.0.get(&key) {
            return *known;
        }
        let Some(is) = compare(door, policy, from, to).await else { return false };
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(key, is);
        is
    }
}

/// None when a config cannot be read.
async fn compare(door: &Door, policy: &EffectivePolicy, from: Option<&ConfigName>, to: &ConfigName) -> Option<bool> {
    let old = match from {
        Some(from) => items(door, from).await?,
        None => Items::default(),
    };
    let new = items(door, to).await?;
    let cost = actions(&ChangeSet::between(&old, &new), policy);
    Some(!cost.is_disruptive())
}

async fn items(door: &Door, name: &ConfigName) -> Option<Items> {
    let configs = door.configs();
    let config = door.bounded(|| format!("read MachineConfig {name}"), configs.get_opt(name.as_str())).await;
    match config {
        Ok(config) => Items::from_config(config?.spec.config.as_ref()?).ok(),
        Err(error) => {
            tracing::debug!(config = %name, %error, "cannot tell whether an update is harmless");
            None
        }
    }
}
