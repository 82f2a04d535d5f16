//! What the node says of itself in `reason`: every finding and the next step, on one line, within the limit.

use super::observed::{Trouble, Work};
use crate::api::annotation::{REASON_LIMIT, cut};
use crate::api::protocol::{DRIFT_PREFIX, NO_API, NO_KUBELET};
use crate::api::{ConfigName, FORCE_FILE, STATE_DIR};
use crate::node::compare::Deviation;
use crate::node::journal::{Journal, Lost};
use std::time::Duration;

/// `text` on one line, within the limit of the annotation.
pub fn one_line(text: &str) -> String {
    let text: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(&text, REASON_LIMIT)
}

/// `head`, as much of `list` as fits, and `tail` in full: the next step is never what is cut.
fn fitted(head: &str, list: &[String], tail: &str) -> String {
    let room = REASON_LIMIT.saturating_sub(head.len() + tail.len());
    one_line(&format!("{head}{}{tail}", cut(&list.join("; "), room)))
}

/// Drift: all findings.
pub fn drift(config: &ConfigName, deviations: &[Deviation]) -> String {
    let mut list: Vec<String> = deviations.iter().map(ToString::to_string).collect();
    list.sort();
    let count = if list.len() == 1 { "1 finding".to_owned() } else { format!("{} findings", list.len()) };
    let from = if config.is_empty() { "the empty config".to_owned() } else { config.to_string() };
    fitted(
        &format!("{DRIFT_PREFIX} {count} against {from}: "),
        &list,
        &format!(". Put it right by hand, or create {FORCE_FILE} to have it applied again with a reboot"),
    )
}

/// What makes the update impossible now.
pub(super) fn obstacles(to: &ConfigName, obstacles: &[String]) -> String {
    fitted(&format!("cannot update to {to}: "), obstacles, ". It goes on by itself once that is put right")
}

/// The rendered config is not there.
pub(super) fn missing(to: &ConfigName) -> String {
    one_line(&format!(
        "MachineConfig {to}, which this node's annotation desiredConfig names, does not exist; the controller puts it \
         back when it is a pool's target: see the pool's conditions"
    ))
}

/// The rendered config cannot be read.
pub(super) fn broken(to: &ConfigName, why: &str) -> String {
    one_line(&format!("MachineConfig {to} cannot be used: {why}. The controller puts edited rendered configs back"))
}

/// The policy is not in effect.
pub(super) fn no_policy(why: &str) -> String {
    one_line(&format!("the disruption policy cannot be read: {why}"))
}

/// The disk is not as the new config says after the update.
pub(super) fn unverified(to: &ConfigName, deviations: &[Deviation]) -> String {
    let mut list: Vec<String> = deviations.iter().map(ToString::to_string).collect();
    list.sort();
    fitted(
        &format!("update to {to} failed: after its actions the disk is not as it says: "),
        &list,
        ". Something on the node changes these items; take them out of the config or stop what changes them",
    )
}

/// The node was without its kubelet, or without the API server, for all of the time that the guard gives.
pub(super) fn lost(to: &ConfigName, lost: Lost, patience: Duration) -> String {
    let time = if patience.as_secs().is_multiple_of(60) {
        format!("{} min", patience.as_secs() / 60)
    } else {
        format!("{} s", patience.as_secs())
    };
    one_line(&match lost {
        Lost::Kubelet => format!(
            "update to {to} failed: {NO_KUBELET} within {time} of its actions, so the node undid it; see \
             `journalctl -u kubelet -u containerd` of that time"
        ),
        Lost::Api => format!(
            "update to {to} failed: {NO_API} within {time} of its actions, so the node undid it. The config cuts the node \
             off, or the API server was away"
        ),
    })
}

/// With what comes after an update that was undone because the API server did not answer, so many times in a row.
pub(super) fn unanswered(failure: &str, times: u32) -> String {
    let next = match times {
        0 => return failure.to_owned(),
        1 => "it is tried once more by itself",
        _ => "it came again when it was tried once more, so it is not tried again by itself",
    };
    one_line(&format!("{}; {next}", cut(failure, REASON_LIMIT - next.len() - 2)))
}

/// A step on the node that does not work.
pub(super) fn trouble(trouble: &Trouble, journal: Option<&Journal>) -> String {
    let undoing = journal.and_then(|j| Some((&j.to.name, j.failure.as_ref()?)));
    let text = &trouble.text;
    one_line(&match (trouble.work, undoing) {
        (Work::State, _) => text.clone(),
        (Work::Back, Some((to, failure))) => {
            format!(
                "undoing the update to {to} does not work: {text}. It is tried again; it is undone because: {failure}"
            )
        }
        (Work::Look, _) => format!("cannot compare the disk: {text}. It is tried again"),
        (Work::Record, _) => format!("cannot write the state in {STATE_DIR}: {text}. It is tried again"),
        (Work::BootId, _) => format!("cannot tell whether the node has booted: {text}. It is tried again"),
        (Work::Reboot, _) => format!("the reboot cannot be asked for: {text}. It is tried again"),
        (Work::Back | Work::Forward | Work::Guard, _) => format!("{text}. It is tried again"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deviation(n: usize) -> Deviation {
        Deviation { item: format!("/etc/ä{n}.conf"), what: "is missing".into() }
    }

    #[test]
    fn many_findings_never_push_out_the_next_step() {
        let text = drift(&"rendered-worker-1".into(), &(0..500).map(deviation).collect::<Vec<_>>());
        assert!(text.len() <= REASON_LIMIT, "{} bytes", text.len());
        assert!(text.starts_with("Drift: 500 findings against rendered-worker-1: /etc/ä0.conf is missing; "), "{text}");
        assert!(text.ends_with("applied again with a reboot"), "{text}");
    }

    #[test]
    fn the_same_findings_in_another_order_are_the_same_reason() {
        let (a, b) = (vec![deviation(1), deviation(2)], vec![deviation(2), deviation(1)]);
        assert_eq!(drift(&"c".into(), &a), drift(&"c".into(), &b));
    }

    #[test]
    fn only_drift_begins_with_drift() {
        // The controller gives nothing to a node whose reason begins so: a failed config could never be withdrawn.
        let to = ConfigName::from("c");
        for text in [
            obstacles(&to, &["x".into()]),
            missing(&to),
            broken(&to, "x"),
            no_policy("x"),
            unverified(&to, &[deviation(1)]),
            lost(&to, Lost::Kubelet, Duration::from_mins(10)),
            lost(&to, Lost::Api, Duration::from_secs(90)),
        ] {
            assert!(!text.starts_with(DRIFT_PREFIX), "{text}");
        }
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(one_line("a\nb\tc\n"), "a b c");
    }
}
