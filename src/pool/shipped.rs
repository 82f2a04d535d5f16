//! Creates the shipped pools, sources and policy whenever they are absent. What is there is never touched.

use super::caches::Objects;
use super::door::Error;
use super::world::{Leader, World};
use crate::api::{MachineConfig, MachineConfigPool, MachineConfiguration, PoolName, shipped};

/// What is absent.
#[derive(Debug, Default)]
struct Missing {
    pools: Vec<MachineConfigPool>,
    sources: Vec<MachineConfig>,
    policies: Vec<MachineConfiguration>,
}

fn missing(world: &World, objects: &Objects) -> Missing {
    let pool_is_there =
        |name: &str| world.pools.contains_key(&PoolName::from(name)) || objects.unreadable_pools.contains_key(name);
    Missing {
        pools: shipped::pools().into_iter().filter(|p| !pool_is_there(p.name())).collect(),
        sources: shipped::sources().into_iter().filter(|s| !objects.configs.contains_key(s.name())).collect(),
        policies: [shipped::machine_configuration()]
            .into_iter()
            .filter(|p| !objects.policies.contains_key(p.name()))
            .collect(),
    }
}

/// Creates what is absent: sources first, so that a new pool has something to select.
pub async fn sync(leader: &Leader, world: &World, objects: &Objects) -> Result<(), Error> {
    let missing = missing(world, objects);
    let door = &leader.door;
    for policy in &missing.policies {
        created("MachineConfiguration", policy.name(), door.create(policy).await?.is_some());
    }
    for source in &missing.sources {
        created("MachineConfig", source.name(), door.create(source).await?.is_some());
    }
    for pool in &missing.pools {
        created("MachineConfigPool", pool.name(), door.create(pool).await?.is_some());
    }
    Ok(())
}

fn created(kind: &str, name: &str, new: bool) {
    if new {
        tracing::info!(kind, name, "created, since it was absent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::MachineConfigPoolSpec;
    use crate::pool::caches::Unreadable;
    use std::sync::Arc;

    fn names(missing: &Missing) -> Vec<String> {
        let pools = missing.pools.iter().map(|o| o.name().to_owned());
        let sources = missing.sources.iter().map(|o| o.name().to_owned());
        pools.chain(sources).chain(missing.policies.iter().map(|o| o.name().to_owned())).collect()
    }

    #[test]
    fn all_shipped_objects_are_created_on_an_empty_cluster() {
        let missing = missing(&World::default(), &Objects::default());
        assert_eq!(names(&missing), ["master", "worker", "00-master", "00-worker", "cluster"]);
    }

    #[test]
    fn what_is_there_is_not_created_whatever_is_in_it() {
        let mut world = World::default();
        world
            .pools
            .insert("worker".into(), Arc::new(MachineConfigPool::new("worker", MachineConfigPoolSpec::default())));
        let mut objects = Objects::default();
        objects.configs.insert("00-worker".to_owned(), Ok(Arc::new(MachineConfig::default())));
        let unreadable = Unreadable { labels: std::collections::BTreeMap::new(), error: "no".to_owned() };
        objects.policies.insert("cluster".to_owned(), Err(unreadable.clone()));
        objects.unreadable_pools.insert("master".to_owned(), unreadable);
        assert_eq!(names(&missing(&world, &objects)), ["00-master"]);
    }
}
