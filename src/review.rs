//! All that can be said of an input at once: of its texts, its sources, its pools and its policies.
//!
//! It is a room of its own above `change` and `render` because it asks both, about policies and about sources and pools, and
//! is about no change. It has no rule itself, so that an offline command cannot say something else than the controller; it
//! decides only what is said once, and in which order.

use crate::api::MachineConfigPool;
use crate::change::{lint, policy};
use crate::render::finding::{Finding, Severity};
use crate::render::load::Loaded;
use crate::render::{self, rule, select};
use serde::Serialize;

/// The findings of an input, in order, each once. Serialized as programs read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Review {
    /// Errors first, then from top to bottom of each file.
    pub findings: Vec<Finding>,
    /// How many of them are errors.
    pub errors: usize,
    /// How many of them are warnings.
    pub warnings: usize,
}

/// Reviews an input whole: as if it were applied to a cluster that has nothing else but what mcx ships.
///
/// Every source is looked at, whether a pool selects it or not, and every pool is rendered from its sources.
pub fn review(loaded: &Loaded) -> Review {
    let pools = loaded.known_pools();
    let shipped = loaded.absent_sources();
    let mut survey = render::survey(&pools, &loaded.configs, &shipped);
    let mut found = std::mem::take(&mut survey.findings);
    found.extend(lint::lint(&mut survey, &loaded.policies));
    drop(survey);
    gather(loaded, &pools, found)
}

/// What `found` and the input itself come to: placed, in order, each once. `found` is what was said of pools and of their
/// sources, one by one; what is wrong with texts, policies and labels comes with it here.
pub fn gather(loaded: &Loaded, pools: &[MachineConfigPool], mut found: Vec<Finding>) -> Review {
    // Of an input that could be read only in part nothing is said that may only seem so.
    if loaded.has_errors() {
        found.retain(|f| f.rule != rule::NO_SOURCES.id);
    }
    if !loaded.findings.iter().any(hides_a_pool) {
        found.extend(select::unselected(pools, &loaded.configs));
    }
    found.extend(loaded.policies.iter().flat_map(policy::findings));
    loaded.locate(&mut found);
    found.extend_from_slice(&loaded.findings);
    Review::new(found)
}

/// Whether an error may have kept a pool from being read.
fn hides_a_pool(finding: &Finding) -> bool {
    let of_pool = finding.object.is_empty() || finding.object.starts_with("MachineConfigPool/");
    finding.severity == Severity::Error && of_pool
}

impl Review {
    /// As a person reads: what stops it first, then from top to bottom. Two pools may have said the same of one source.
    fn new(mut findings: Vec<Finding>) -> Self {
        fn key(f: &Finding) -> impl Ord {
            let place = (f.severity, f.file.as_deref(), f.line, f.column);
            (place, f.object.as_str(), f.path.as_str(), f.rule, f.message.as_str(), f.help.as_str())
        }
        findings.sort_by(|a, b| key(a).cmp(&key(b)));
        findings.dedup();
        let errors = findings.iter().filter(|f| f.severity == Severity::Error).count();
        Self { errors, warnings: findings.len() - errors, findings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::load::{Input, load};
    use proptest::prelude::*;

    const TEXT: &str = r#"
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 50-a
  labels: {machineconfiguration.alauda.io/role: worker}
spec:
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
        - {path: /etc/a, mode: 0o600, contents: {source: "data:;base64,aGVsbG8=", compression: ""}}
    systemd:
      units:
        - name: a@.service
          enabled: true
          contents: "[Unit]\n[Install]\nDefaultInstance=x\n"
          dropins: [{name: 10-x.conf, contents: "[Service]\nNice=1\n"}]
    passwd: {users: [{name: boot, sshAuthorizedKeys: [ssh-ed25519 AAAA x]}]}
---
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata: {name: infra}
spec:
  maxUnavailable: 10%
  machineConfigSelector:
    matchExpressions: [{key: machineconfiguration.alauda.io/role, operator: In, values: [worker, infra]}]
---
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  nodeDisruptionPolicy:
    files: [{path: /etc/a, actions: [{type: Restart, restart: {serviceName: a.service}}]}]
"#;

    /// One line for each finding, whatever the bytes are.
    fn reviewed(bytes: Vec<u8>) {
        let loaded = load(vec![Input { name: "x".to_owned(), bytes }]);
        for finding in review(&loaded).findings {
            assert!(!finding.to_string().contains('\n'), "{finding}");
        }
    }

    #[test]
    fn the_text_that_is_damaged_below_is_right() {
        let loaded = load(vec![Input { name: "x".to_owned(), bytes: TEXT.as_bytes().to_vec() }]);
        let review = review(&loaded);
        assert_eq!((loaded.configs.len(), loaded.pools.len(), loaded.policies.len(), review.errors), (1, 1, 1, 0));
    }

    proptest! {
        #[test]
        fn no_bytes_are_worse_than_a_finding(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            reviewed(bytes);
        }

        #[test]
        fn no_damage_to_a_text_is_worse_than_a_finding(
            damage in prop::collection::vec((0..TEXT.len(), 0..9_usize, prop::collection::vec(any::<u8>(), 0..4)), 1..6)
        ) {
            let mut bytes = TEXT.as_bytes().to_vec();
            for (at, cut, new) in damage {
                let at = at.min(bytes.len());
                let end = (at + cut).min(bytes.len());
                bytes.splice(at..end, new);
            }
            reviewed(bytes);
        }
    }
}
