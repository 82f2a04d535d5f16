//! Condition types of pools and of `cluster`, and their reasons, with what an operator does about each.

names! {
    /// Pool: every node has the target.
    UPDATED = "Updated";
    /// Pool: at least one node does not have the target yet and is on its way.
    UPDATING = "Updating";
    /// Pool: something needs a person; the sum of the two below.
    DEGRADED = "Degraded";
    /// Pool: at least one node is Degraded, or cannot be given its config.
    NODE_DEGRADED = "NodeDegraded";
    /// Pool: the sources do not merge into a valid config; the pool keeps its target.
    RENDER_DEGRADED = "RenderDegraded";
    /// `MachineConfiguration`: the object is in effect. False when it is not the one that is read, or part of it is refused.
    VALID = "Valid";
}

/// Reason of [`VALID`] True: the policy in `status` is the one in `spec`.
pub const IN_EFFECT: &str = "InEffect";
/// Reason of [`VALID`] False: another name than `cluster`, so nobody reads it.
pub const NOT_READ: &str = "NotRead";

/// What an operator needs to know of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What it means.
    pub meaning: &'static str,
    /// How to see more.
    pub check: &'static str,
    /// What to do; empty when nothing is to be done.
    pub fix: &'static str,
}

macro_rules! reasons {
    ($($name:ident: $meaning:literal, $check:literal, $fix:literal;)*) => {
        /// Why a pool condition is as it is. `CamelCase`, stable: scripts compare them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reason {
            $(#[doc = $meaning] $name,)*
        }

        impl Reason {
            /// All of them, from well to worse.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The text in the condition.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Meaning, check and fix: the rows of the generated reference.
            pub fn advice(self) -> Advice {
                match self { $(Self::$name => Advice { meaning: $meaning, check: $check, fix: $fix },)* }
            }
        }
    };
}

reasons! {
    AsExpected: "Nothing is wrong.", "", "";
    AllNodesUpdated: "All nodes are Done at the target.", "", "";
    NodesUpdating: "Nodes are on their way to the target.",
        "`kubectl get node` with the columns of the guide; annotation `phase` says how far a node is", "";
    Rendering: "Sources changed; the new target is not there yet.", "it ends within seconds", "";
    Paused: "The pool is paused and nodes wait.", "`spec.paused` of the pool", "set `spec.paused: false` when they may go on";
    NodesWaiting: "Nodes wait: each is named with what keeps it.", "the message; `drainStatus` of a node that drains",
        "take away what is named: a cordon, a hold, a disruption budget, a missing daemon";
    NodesDegraded: "Nodes report Degraded.", "the message quotes each node's `reason`",
        "as the reason says; see operations.md, \"Reasons of a node\"";
    AmbiguousNodes: "Nodes match two custom pools; they get no new config.", "labels of the node, `nodeSelector` of the pools",
        "take one of the two labels off the node";
    InvalidSources: "The sources were refused; the pool keeps its target.",
        "the message names source, field and rule; `mcx render --pool POOL -f FILES` says the same offline",
        "correct or delete the source";
    NoSources: "The pool selects no source; it keeps its target.", "`spec.machineConfigSelector` of the pool, labels of the sources",
        "correct the selector or the labels";
    InvalidPool: "The pool itself is refused: its selectors.", "the message names the field",
        "a custom pool must also select the sources of worker, and may not be for control-plane nodes";
    InvalidMaxUnavailable: "`maxUnavailable` is negative or unreadable; nothing is handed out.", "`spec.maxUnavailable` of the pool",
        "write a number or a percentage such as `10%`";
    TooLarge: "The rendered config is larger than an API server takes.", "the message names the biggest contributors",
        "compress contents with gzip, or bring large files onto nodes in another way";
    PolicyNotReady: "`cluster` is missing or its status is older than its spec; nothing is handed out.",
        "`kubectl get machineconfiguration cluster -o yaml`", "it ends by itself within seconds";
    InvalidPolicy: "The policy of `cluster` is refused; the last one in effect holds.",
        "condition Valid of `machineconfiguration/cluster`", "correct the field that it names";
    WriteFailed: "The rendered config could not be written.", "the message holds the API server's answer",
        "as it says; it is tried again by itself";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_that_needs_a_person_says_what_to_do() {
        for reason in Reason::ALL.iter().skip_while(|r| **r != Reason::Paused) {
            assert!(!reason.advice().fix.is_empty(), "{}", reason.as_str());
        }
    }
}
