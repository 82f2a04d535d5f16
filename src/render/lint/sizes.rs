//! Numbers that are too large: of a source's bytes, and of a pool's unavailable nodes.

use super::View;
use crate::api::MachineConfigPool;
use crate::render::finding::Finding;
use crate::render::limit::max_unavailable;
use crate::render::{Checked, rule, size, validate};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Most bytes of all annotations of an object, keys included: a limit of the API server.
const ANNOTATIONS_LIMIT: u64 = 256 << 10;

/// The annotation in which `kubectl apply` keeps what was applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(super) fn check(view: &View, found: &mut Vec<Finding>) {
    for source in &view.sources {
        found.extend(too_large(source));
    }
    for pool in view.pools() {
        found.extend(stops_all(pool.pool));
    }
}

/// `kubectl apply` adds the whole object to its annotations.
fn too_large(source: &Checked) -> Option<Finding> {
    let annotations = source.config.metadata.annotations.iter().flatten().filter(|(key, _)| *key != LAST_APPLIED);
    let others: usize = annotations.map(|(key, value)| key.len() + value.len()).sum();
    let size = size::as_go(source.config) + (LAST_APPLIED.len() + others) as u64;
    let message = format!("has {size} bytes as an annotation, more than the {ANNOTATIONS_LIMIT} that fit");
    (size > ANNOTATIONS_LIMIT).then(|| rule::SOURCE_SIZE.finding(&source.object, "", message))
}

fn stops_all(pool: &MachineConfigPool) -> Option<Finding> {
    let object = validate::pool_object(pool);
    let field = "spec.maxUnavailable";
    let value = pool.spec.max_unavailable.as_ref();
    // How many nodes there are is known of an object from a cluster only. A single node is always all of them.
    let known = pool.status.as_ref().and_then(|status| status.machine_count).and_then(|n| usize::try_from(n).ok());
    let known = known.filter(|nodes| *nodes > 1);
    // Any number of nodes tells whether a percentage is a whole.
    let is_percentage = matches!(value, Some(IntOrString::String(_)));
    let nodes = known.or(is_percentage.then_some(100));
    match max_unavailable(value, nodes.unwrap_or(1)) {
        Err(error) => {
            let text = error.to_string();
            let message = text.strip_prefix("spec.maxUnavailable: ").unwrap_or(&text);
            let message = message.split_once("; ").map_or(message, |(problem, _)| problem);
            Some(rule::MAX_UNAVAILABLE.finding(&object, field, message))
        }
        Ok(limit) if nodes.is_some_and(|nodes| limit >= nodes) => {
            let shown = match value {
                Some(IntOrString::Int(number)) => number.to_string(),
                Some(IntOrString::String(text)) => text.clone(),
                None => return None,
            };
            let of = known.map_or_else(|| "all nodes".to_owned(), |nodes| format!("all {nodes} nodes"));
            let message = format!("{shown} lets {of} of the pool be unavailable at once");
            Some(rule::MAX_UNAVAILABLE_ALL.finding(&object, field, message))
        }
        Ok(_) => None,
    }
}
