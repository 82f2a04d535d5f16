//! The status of `MachineConfiguration`s: the policy in effect on `cluster`, and on any other that nobody reads it.

use super::caches::Objects;
use super::door::Error;
use super::world::Leader;
use crate::api::{CLUSTER, MachineConfiguration, MachineConfigurationStatus, condition};
use crate::change::policy::EffectivePolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;

/// The status that `object` should have.
pub fn wanted(object: &MachineConfiguration, now: Timestamp) -> MachineConfigurationStatus {
    let name = object.name();
    let generation = object.metadata.generation.unwrap_or_default();
    let (status, reason, message) = if name == CLUSTER {
        ("True", condition::IN_EFFECT, format!("status shows the policy of generation {generation}"))
    } else {
        let message = format!("MachineConfiguration {name} is not read: only `{CLUSTER}` is; write its policy there");
        ("False", condition::NOT_READ, message)
    };
    let policy = (name == CLUSTER).then(|| EffectivePolicy::from_spec(object).to_status());
    let earlier = object.status.iter().flat_map(|s| s.conditions.iter().flatten());
    // The time of a condition moves with its status only.
    let since = earlier.clone().find(|c| c.type_ == condition::VALID && c.status == status);
    let valid = Condition {
        type_: condition::VALID.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(generation),
        last_transition_time: since.map_or(Time(now), |c| c.last_transition_time.clone()),
    };
    let others = earlier.filter(|c| c.type_ != condition::VALID).cloned();
    MachineConfigurationStatus {
        conditions: Some(others.chain([valid]).collect()),
        node_disruption_policy_status: policy,
        observed_generation: Some(generation),
    }
}

/// Writes each status that is not as it should be. A conflict is decided again when the cache has caught up.
pub async fn sync(leader: &Leader, objects: &Objects, now: Timestamp) -> Result<(), Error> {
    for object in objects.policies.values().flatten() {
        let wanted = wanted(object, now);
        if object.status.as_ref() == Some(&wanted) {
            continue;
        }
        let generation = wanted.observed_generation;
        let new = MachineConfiguration { status: Some(wanted), ..MachineConfiguration::clone(object) };
        if leader.door.replace_status(&new).await?.is_some() {
            tracing::info!(name = new.name(), generation, "wrote the status of a MachineConfiguration");
        }
    }
    Ok(())
}

/// `cluster`, when it is there and can be read.
pub fn cluster(objects: &Objects) -> Option<&Arc<MachineConfiguration>> {
    objects.policies.get(CLUSTER)?.as_ref().ok()
}
