//! What the API server's answer to an eviction means, and when to ask again. Pure.

use super::pods::BoundPod;
use crate::api::annotation::cut;
use kube::core::Status;
use std::fmt::Display;
use std::time::Duration;

/// First wait after a refusal.
const FIRST: Duration = Duration::from_secs(1);
/// Longest wait of our own accord: whoever clears the way sees the drain go on within it.
const LONGEST: Duration = Duration::from_secs(10);
/// Longest wait that a server may impose with `Retry-After`.
const LONGEST_IMPOSED: Duration = Duration::from_mins(1);
/// Most that is repeated of a server's message, in bytes.
const MESSAGE_LIMIT: usize = 300;

/// What became of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The pod is asked to end.
    Accepted,
    /// The pod is gone, or another one bears its name.
    Gone,
    /// Ask again later: why, for people, and how long the server wants to be left alone.
    Later {
        /// With the budget's name, if it is one.
        why: String,
        /// `Retry-After`; none when the server said nothing.
        after: Option<Duration>,
    },
    /// The pod is under more than one budget, which the Eviction API does not serve: a person must remove one.
    SeveralBudgets,
}

/// Reads the refusal of an eviction of `pod`.
pub(super) fn refusal(pod: &BoundPod, status: &Status) -> Answer {
    let details = status.details.as_ref();
    let cause = |reason: &str| details.and_then(|d| d.causes.iter().find(|c| c.reason == reason));
    let after = details
        .map(|d| d.retry_after_seconds)
        .filter(|s| *s > 0)
        .map(|s| Duration::from_secs(s.into()).min(LONGEST_IMPOSED));
    let message = cut(status.message.lines().next().unwrap_or_default(), MESSAGE_LIMIT);
    let later = |why: String| Answer::Later { why, after };
    match status.code {
        404 => Answer::Gone,
        // The UID that we gave is not the one of the pod that is there now.
        409 if status.message.to_ascii_lowercase().contains("uid") => Answer::Gone,
        409 => later(format!("{}: {message}", pod.title())),
        429 => later(match cause("DisruptionBudget") {
            Some(cause) => budget(pod, &cause.message),
            None => format!("{}: the API server asks to wait: {message}", pod.title()),
        }),
        403 if cause("NamespaceTerminating").is_some() => {
            later(format!("{} ends with its namespace, which is being deleted", pod.title()))
        }
        403 => later(format!(
            "{}: the eviction is forbidden: {message}; look at the ClusterRole of the controller and at admission",
            pod.title()
        )),
        500 if status.message.contains("more than one PodDisruptionBudget") => Answer::SeveralBudgets,
        code => later(format!("{}: the API server answers {code}: {message}", pod.title())),
    }
}

/// Names the budget that protects `pod`, from the server's words `The disruption budget B needs N healthy pods and has M
/// currently`; other words are repeated as they are.
fn budget(pod: &BoundPod, message: &str) -> String {
    let parsed = message.strip_prefix("The disruption budget ").and_then(|rest| {
        let (name, rest) = rest.split_once(" needs ")?;
        let (needed, rest) = rest.split_once(" healthy pods and has ")?;
        let (has, _) = rest.split_once(" currently")?;
        Some((name, needed, has))
    });
    match parsed {
        Some((name, needed, has)) => held_by(pod, name, &needed, &has),
        None => format!("{}: {}", pod.title(), cut(message, MESSAGE_LIMIT)),
    }
}

/// What is said of a pod that the budget `name` of its namespace holds: pods that are needed, and that are healthy.
pub(in crate::pool) fn held_by(pod: &BoundPod, name: &str, needed: &impl Display, has: &impl Display) -> String {
    let hint = if pod.ready {
        ""
    } else {
        "; the pod itself is not Ready: a budget with unhealthyPodEvictionPolicy AlwaysAllow would let it go"
    };
    let (title, namespace) = (pod.title(), &pod.namespace);
    format!("{title}: PodDisruptionBudget {namespace}/{name} needs {needed} healthy pods and has {has}{hint}")
}

/// What is said of a pod under several budgets.
pub(in crate::pool) fn several_budgets(pod: &BoundPod, names: &[String]) -> String {
    format!(
        "{} is under more than one PodDisruptionBudget ({}), which the Eviction API does not serve: leave it one",
        pod.title(),
        names.join(", ")
    )
}

/// How long to wait after the `failures`th refusal in a row (from 1): doubling, spread by up to a quarter so that many
/// pods or nodes do not ask in step. `salt` is what tells them apart.
pub(super) fn retry_after(failures: u32, imposed: Option<Duration>, salt: &str) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(6)).min(LONGEST);
    let wait = doubled.max(imposed.unwrap_or_default());
    wait.mul_f64(1.0 - spread(salt, failures)).max(imposed.unwrap_or_default())
}

/// A share of at most a quarter that depends on nothing but the arguments (FNV-1a).
fn spread(salt: &str, failures: u32) -> f64 {
    let bytes = salt.bytes().chain(failures.to_le_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    f64::from(hash >> 8) / f64::from(1_u32 << 24) / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(ready: bool) -> BoundPod {
        let value = json!({
            "metadata": {"name": "db-0", "namespace": "shop", "uid": "u"},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}
        });
        BoundPod::new(&serde_json::from_value(value).unwrap(), "mcx-system")
    }

    fn status(code: u16, message: &str, details: &serde_json::Value) -> Status {
        serde_json::from_value(json!({"status": "Failure", "code": code, "message": message, "details": details}))
            .unwrap()
    }

    fn why(answer: Answer) -> String {
        match answer {
            Answer::Later { why, .. } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refusal_names_pod_budget_and_numbers_r091() {
        let cause = json!({"causes": [{
            "reason": "DisruptionBudget",
            "message": "The disruption budget db needs 2 healthy pods and has 2 currently"
        }]});
        let refused = status(429, "Cannot evict pod as it would violate the pod's disruption budget.", &cause);
        assert_eq!(
            why(refusal(&pod(true), &refused)),
            "pod shop/db-0: PodDisruptionBudget shop/db needs 2 healthy pods and has 2"
        );
        let unready = why(refusal(&pod(false), &refused));
        assert!(unready.contains("unhealthyPodEvictionPolicy"), "R-077: {unready}");
    }

    #[test]
    fn each_answer_is_its_own_case_r076() {
        let pod = pod(true);
        assert_eq!(refusal(&pod, &status(404, "pods \"db-0\" not found", &json!({}))), Answer::Gone);
        let other = "Operation cannot be fulfilled on pods \"db-0\": the UID in the precondition (u) does not match";
        assert_eq!(refusal(&pod, &status(409, other, &json!({}))), Answer::Gone);
        let two = "Internal error occurred: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(refusal(&pod, &status(500, two, &json!({}))), Answer::SeveralBudgets);
        let hint = several_budgets(&pod, &["shop/a".to_owned(), "shop/b".to_owned()]);
        assert!(hint.contains("(shop/a, shop/b)"), "{hint}");
        for (code, message, details, expected) in [
            (403, "pods \"db-0\" is forbidden: User \"x\" cannot create", json!({}), "ClusterRole"),
            (403, "ns", json!({"causes": [{"reason": "NamespaceTerminating"}]}), "ends with its namespace"),
            (429, "too many requests", json!({}), "asks to wait"),
            (500, "etcd is away", json!({}), "answers 500: etcd is away"),
        ] {
            let text = why(refusal(&pod, &status(code, message, &details)));
            assert!(text.contains(expected) && text.contains("pod shop/db-0"), "{code}: {text}");
        }
    }

    #[test]
    fn the_server_is_left_alone_as_long_as_it_wants_but_not_for_ever() {
        for (seconds, expected) in [(5, 5), (86_400, 60)] {
            let refused = status(429, "wait", &json!({"retryAfterSeconds": seconds}));
            let Answer::Later { after, .. } = refusal(&pod(true), &refused) else { panic!() };
            assert_eq!(after, Some(Duration::from_secs(expected)));
            let wait = retry_after(1, after, "u");
            assert!(wait >= Duration::from_secs(expected), "{wait:?}");
        }
    }

    #[test]
    fn waits_grow_are_bounded_and_differ_from_pod_to_pod_r069() {
        let wait = |n: u32, salt: &str| retry_after(n, None, salt).as_secs_f64();
        assert!(wait(1, "a") <= 1.0 && wait(1, "a") >= 0.75);
        assert!(wait(3, "a") > 2.0 * wait(1, "a"));
        assert!(wait(1_000, "a") <= LONGEST.as_secs_f64(), "clearing the budget helps within one retry (R-068)");
        let all: std::collections::BTreeSet<String> =
            (0..20).map(|n| format!("{:.3}", wait(4, &format!("u{n}")))).collect();
        assert!(all.len() > 10, "in step: {all:?}");
    }
}
