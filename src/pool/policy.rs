//! The status of `MachineConfiguration`s: the policy in effect on `cluster`, and on any other that nobody reads it.

use super::caches::Objects;
use super::door::Error;
use super::world::Leader;
use crate::api::{CLUSTER, MachineConfiguration, MachineConfigurationStatus, condition};
use crate::change::policy::EffectivePolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::shipped;
    use serde_json::json;

    fn named(name: &str, generation: i64) -> MachineConfiguration {
        let mut object = shipped::machine_configuration();
        object.metadata.name = Some(name.to_owned());
        object.metadata.generation = Some(generation);
        object
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn valid(status: &MachineConfigurationStatus) -> &Condition {
        status.conditions.iter().flatten().find(|c| c.type_ == condition::VALID).unwrap()
    }

    #[test]
    fn cluster_shows_the_policy_in_effect_with_its_defaults_and_generation() {
        let status = wanted(&named(CLUSTER, 4), at(1));
        assert_eq!(status.observed_generation, Some(4));
        assert_eq!((valid(&status).status.as_str(), valid(&status).observed_generation), ("True", Some(4)));
        let shown = serde_json::to_value(status.node_disruption_policy_status).unwrap();
        assert_eq!(shown["defaultActions"], json!({"files": [{"type": "None"}], "units": [{"type": "Reboot"}]}));
        assert_eq!(shown["clusterPolicies"]["sshkey"], json!({"actions": [{"type": "None"}]}));
    }

    #[test]
    fn r_162_another_name_is_told_that_nobody_reads_it() {
        let status = wanted(&named("mine", 1), at(1));
        let condition = valid(&status);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", condition::NOT_READ));
        assert!(condition.message.contains("mine") && condition.message.contains("`cluster`"), "{}", condition.message);
        assert_eq!(status.node_disruption_policy_status, None, "it has no policy in effect");
    }

    #[test]
    fn r_169_a_status_that_is_right_is_written_once_and_its_time_moves_with_it_only() {
        let mut object = named(CLUSTER, 4);
        object.status = Some(wanted(&object, at(1)));
        assert_eq!(Some(wanted(&object, at(500))), object.status);
        object.metadata.generation = Some(5);
        let next = wanted(&object, at(500));
        assert_eq!(next.observed_generation, Some(5));
        assert_eq!(valid(&next).last_transition_time.0, at(1), "Valid was True before");
    }

    #[test]
    fn conditions_of_others_are_left_alone() {
        let mut object = named(CLUSTER, 1);
        let theirs = Condition {
            type_: "Theirs".to_owned(),
            status: "True".to_owned(),
            reason: "X".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(at(0)),
        };
        object.status =
            Some(MachineConfigurationStatus { conditions: Some(vec![theirs.clone()]), ..Default::default() });
        assert_eq!(wanted(&object, at(1)).conditions.unwrap()[0], theirs);
    }
}
