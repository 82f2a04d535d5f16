//! The daemon's metrics: its state, its drift, its updates.

use crate::api::metric;
use crate::api::protocol::NodeState;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The daemon's metrics.
#[derive(Clone, Default)]
pub struct Metrics {
    state: Family<[(&'static str, &'static str); 1], Gauge>,
    pub(super) drift: Gauge,
    updates: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Metrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix(metric::PREFIX);
        registry.register(metric::NODE_STATE, "1 for the state that this node reports", self.state.clone());
        registry.register(
            metric::DRIFT_FINDINGS,
            "Managed items that differ from the current config",
            self.drift.clone(),
        );
        registry.register(metric::UPDATES, "Updates of this node by outcome", self.updates.clone());
    }

    pub(super) fn show_state(&self, state: Option<NodeState>) {
        for known in [NodeState::Done, NodeState::Working, NodeState::Degraded] {
            self.state.get_or_create(&[("state", known.as_str())]).set(i64::from(state == Some(known)));
        }
    }

    pub(super) fn count(&self, outcome: &'static str) {
        self.updates.get_or_create(&[("outcome", outcome)]).inc();
    }
}
