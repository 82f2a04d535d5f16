//! The controller's metrics: one registry per process, series that vanish with their object.

/// All series.
pub struct Metrics {
    // The owner of `controller` fills this in.
}

impl Metrics {
    /// Marks the drain of a node as overdue, or removes its series.
    pub fn drain_overdue(&self, _node: &str, _overdue: bool) {
        todo!()
    }

    /// Counts one write to a kind of object.
    pub fn wrote(&self, _kind: &'static str) {
        todo!()
    }
}
