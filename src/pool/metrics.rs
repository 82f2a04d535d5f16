//! The controller's metrics: one registry per process, series that vanish with their object.
//!
//! Gauges are made from the caches on every replica, so that a failover leaves no gap and clears no alert:
//! replicas say the same, take the maximum. Only `leading` tells them apart.

use super::world::World;
use crate::api::protocol::NodeState;
use crate::api::{MachineConfigPool, NodeName, condition, metric};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The conditions of a pool that are shown.
const CONDITIONS: [&str; 5] = [
    condition::UPDATED,
    condition::UPDATING,
    condition::DEGRADED,
    condition::NODE_DEGRADED,
    condition::RENDER_DEGRADED,
];

/// The labels of a series that is alone.
const NO_LABELS: [(&str, &str); 0] = [];

/// All series.
#[derive(Debug, Default)]
pub struct Metrics {
    shown: Arc<Shown>,
    writes: Family<[(&'static str, &'static str); 1], Counter>,
    renderings: Family<[(&'static str, &'static str); 1], Counter>,
}

/// What the gauges show, replaced as a whole: a scrape never sees half of it.
#[derive(Debug, Default)]
struct Shown(Mutex<Gauges>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Gauges {
    leading: bool,
    pools: BTreeMap<String, Pool>,
    unmanaged: usize,
    unselected: usize,
    overdue: BTreeSet<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pool {
    machines: BTreeMap<&'static str, i64>,
    conditions: BTreeMap<&'static str, bool>,
}

impl Metrics {
    /// Registers all of them.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let ours = registry.sub_registry_with_prefix(metric::PREFIX);
        ours.register_collector(Box::new(Arc::clone(&metrics.shown)));
        ours.register(metric::API_WRITES, "Writes to the API server", metrics.writes.clone());
        ours.register(metric::RENDERINGS, "Renderings of a pool's sources", metrics.renderings.clone());
        metrics
    }

    fn gauges(&self) -> MutexGuard<'_, Gauges> {
        self.shown.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the drain of a node as overdue, or removes its series.
    pub fn drain_overdue(&self, node: &str, overdue: bool) {
        let mut gauges = self.gauges();
        if overdue {
            gauges.overdue.insert(node.to_owned());
        } else {
            gauges.overdue.remove(node);
        }
    }

    /// Counts one write to a kind of object.
    pub fn wrote(&self, kind: &'static str) {
        self.writes.get_or_create(&[("kind", kind)]).inc();
    }

    /// Counts renderings of pools, by what came of them.
    pub fn rendered(&self, rendered: u32, refused: u32) {
        for (outcome, count) in [("rendered", rendered), ("refused", refused)] {
            self.renderings.get_or_create(&[("outcome", outcome)]).inc_by(count.into());
        }
    }

    /// Whether this replica leads. One that does not looks after no drain.
    pub fn leads(&self, leading: bool) {
        let mut gauges = self.gauges();
        gauges.leading = leading;
        if !leading {
            gauges.overdue.clear();
        }
    }

    /// Shows `world`; series of objects that are gone vanish. `unmanaged`: nodes that no pool selects; `unselected`:
    /// sources that no pool selects.
    pub fn show(&self, world: &World, unmanaged: usize, unselected: usize) {
        let pools = world.pools.iter().map(|(name, pool)| (name.to_string(), Pool::new(pool))).collect();
        let mut gauges = self.gauges();
        gauges.pools = pools;
        gauges.unmanaged = unmanaged;
        gauges.unselected = unselected;
        gauges.overdue.retain(|node| world.nodes.contains_key(&NodeName::from(node.as_str())));
        for node in world.nodes.values().filter(|n| n.state == Some(NodeState::Done) && n.settled() && !n.cordoned) {
            gauges.overdue.remove(node.name.as_str());
        }
    }
}

impl Pool {
    fn new(pool: &MachineConfigPool) -> Self {
        let Some(status) = &pool.status else { return Self::default() };
        let machines = [
            ("machines", status.machine_count),
            ("ready", status.ready_machine_count),
            ("updated", status.updated_machine_count),
            ("unavailable", status.unavailable_machine_count),
            ("degraded", status.degraded_machine_count),
        ];
        let is =
            |type_: &str| status.conditions.iter().flatten().find(|c| c.type_ == type_).map(|c| c.status == "True");
        Self {
            machines: machines.into_iter().filter_map(|(kind, n)| Some((kind, i64::from(n?)))).collect(),
            conditions: CONDITIONS.into_iter().filter_map(|t| Some((t, is(t)?))).collect(),
        }
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauges = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let one = |value: usize| vec![(NO_LABELS, i64::try_from(value).unwrap_or(i64::MAX))];
        family(&mut encoder, metric::LEADING, "1 on the replica that leads", one(gauges.leading.into()))?;
        family(&mut encoder, metric::UNMANAGED_NODES, "Nodes that no pool selects", one(gauges.unmanaged))?;
        family(
            &mut encoder,
            metric::UNSELECTED_SOURCES,
            "MachineConfigs that no pool selects",
            one(gauges.unselected),
        )?;
        let machines = gauges.pools.iter().flat_map(|(pool, shown)| {
            shown.machines.iter().map(move |(kind, n)| ([("pool", pool.as_str()), ("kind", *kind)], *n))
        });
        family(&mut encoder, metric::POOL_MACHINES, "Nodes of a pool, by how they stand", machines)?;
        let conditions = gauges.pools.iter().flat_map(|(pool, shown)| {
            shown
                .conditions
                .iter()
                .map(move |(type_, is)| ([("pool", pool.as_str()), ("condition", *type_)], (*is).into()))
        });
        family(&mut encoder, metric::POOL_CONDITION, "1 when the condition of the pool is True", conditions)?;
        let overdue = gauges.overdue.iter().map(|node| ([("node", node.as_str())], 1));
        family(&mut encoder, metric::DRAIN_OVERDUE, "1 while a drain takes longer than the threshold", overdue)
    }
}

fn family<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (L, i64)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::machine_config_pool::PoolCondition;
    use crate::api::{MachineConfigPoolSpec, MachineConfigPoolStatus};
    use crate::pool::view::NodeView;

    fn pool(updated: &str) -> MachineConfigPool {
        let mut pool = MachineConfigPool::new("worker", MachineConfigPoolSpec::default());
        let condition = PoolCondition { type_: "Updated".into(), status: updated.into(), ..PoolCondition::default() };
        pool.status = Some(MachineConfigPoolStatus {
            machine_count: Some(3),
            conditions: Some(vec![condition]),
            ..MachineConfigPoolStatus::default()
        });
        pool
    }

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn r_173_series_vanish_with_their_pool_and_node() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let mut world = World::default();
        world.pools.insert("worker".into(), Arc::new(pool("True")));
        world.nodes.insert("n1".into(), Arc::new(NodeView { name: "n1".into(), ..NodeView::default() }));
        metrics.leads(true);
        metrics.drain_overdue("n1", true);
        metrics.show(&world, 2, 1);
        metrics.wrote("Node");
        let shown = text(&registry);
        for line in [
            "mcx_leading 1",
            "mcx_unmanaged_nodes 2",
            "mcx_unselected_sources 1",
            "mcx_pool_machines{pool=\"worker\",kind=\"machines\"} 3",
            "mcx_pool_condition{pool=\"worker\",condition=\"Updated\"} 1",
            "mcx_drain_overdue{node=\"n1\"} 1",
            "mcx_api_writes_total{kind=\"Node\"} 1",
        ] {
            assert!(shown.lines().any(|l| l == line), "{line} is not in\n{shown}");
        }
        metrics.show(&World::default(), 0, 0);
        let shown = text(&registry);
        assert!(!shown.contains("worker") && !shown.contains("n1"), "{shown}");
    }

    #[test]
    fn a_replica_that_lost_the_lead_claims_no_overdue_drain() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        metrics.leads(true);
        metrics.drain_overdue("n1", true);
        metrics.leads(false);
        let shown = text(&registry);
        assert!(shown.contains("mcx_leading 0") && !shown.contains("n1"), "{shown}");
    }
}
