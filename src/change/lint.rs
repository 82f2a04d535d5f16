//! All lints, and those of policies: what of a policy is allowed and probably not meant. Pure.
//!
//! What is wrong with a policy is `policy`'s; lints of pools and sources are `render::lint`'s.

use super::policy::EffectivePolicy;
use crate::api::machine_configuration::PolicyAction;
use crate::api::{CLUSTER, MachineConfiguration};
use crate::render::Survey;
use crate::render::finding::Finding;
use crate::render::items::UnitItem;
use crate::render::lint::{PoolView, View, placeholder};
use crate::render::path::is_within;
use crate::render::rule;
use crate::render::systemd::install::{is_template, template_of};
use crate::render::systemd::text::UnitText;
use crate::render::validate::quoted;

/// All lints of pools, sources and policies, in any order of the objects. The pools are all that a cluster would have, the
/// shipped ones included.
///
/// Beside what the survey has found, and [`crate::render::select::unselected`] and [`super::policy::findings`] say, and
/// nothing of that again.
pub fn lint(survey: &mut Survey, policies: &[MachineConfiguration]) -> Vec<Finding> {
    let mut found = survey.lints();
    // Others are not read, and refused by their name.
    for cluster in policies.iter().filter(|p| p.name() == CLUSTER) {
        policy(cluster, &survey.view, &mut found);
    }
    found
}

/// A list of actions of a policy.
struct Entry<'p> {
    /// Field path of its list.
    at: String,
    actions: &'p [PolicyAction],
    /// Whether an item of the pool takes it.
    taken: Box<dyn Fn(&PoolView) -> bool + 'p>,
}

fn policy(cluster: &MachineConfiguration, view: &View, found: &mut Vec<Finding>) {
    let object = format!("MachineConfiguration/{}", cluster.name());
    let effective = EffectivePolicy::from_spec(cluster);
    defaults(cluster, &object, found);
    unused(&effective, view, &object, found);
    for entry in entries(cluster, &effective) {
        for (i, action) in entry.actions.iter().enumerate() {
            let (verb, field, service) = match (action.type_.as_str(), &action.restart, &action.reload) {
                ("Restart", Some(service), _) => ("restarts", "restart", service),
                ("Reload", _, Some(service)) => ("reloads", "reload", service),
                _ => continue,
            };
            let at = format!("{}[{i}].{field}.serviceName", entry.at);
            let unit = service.service_name.as_str();
            found.extend(switched_off(&entry, verb, unit, view).map(|m| rule::POLICY_OFF.finding(&object, &at, m)));
            if verb == "reloads" {
                found.extend(not_reloadable(unit, view).map(|m| rule::POLICY_RELOAD.finding(&object, &at, m)));
            }
        }
    }
}

/// The defaults of a policy are both replaced together: what one of the lists leaves out costs nothing.
fn defaults(cluster: &MachineConfiguration, object: &str, found: &mut Vec<Finding>) {
    let Some(defaults) = &cluster.spec.default_node_disruption_policy_spec_action else { return };
    if defaults.units.iter().all(|action| action.type_ == "None") {
        let field = "spec.defaultNodeDisruptionPolicySpecAction.units";
        let lists = if defaults.units.is_empty() { "is absent or empty" } else { "is None" };
        let message = format!("{lists}, where Reboot is shipped: a changed unit without an entry does not take effect");
        found.push(rule::POLICY_DEFAULTS.finding(object, field, message));
    }
}

/// Entries that no item of any source takes. Of a policy that is looked at alone nothing is known.
fn unused(policy: &EffectivePolicy, view: &View, object: &str, found: &mut Vec<Finding>) {
    let (files, units) = (view.files(), view.units());
    if files.is_empty() && units.is_empty() {
        return;
    }
    for (i, entry) in policy.files.iter().enumerate() {
        let field = format!("spec.nodeDisruptionPolicy.files[{i}].path");
        if let Some(placeholder) = placeholder::in_line(&entry.path) {
            let message = format!("still has the placeholder {}", quoted(placeholder));
            found.push(rule::PLACEHOLDER.finding(object, field, message));
        } else if !files.iter().any(|path| is_within(path, &entry.path)) {
            let message = format!("no source brings a file at or below {}", quoted(&entry.path));
            found.push(rule::POLICY_UNUSED.finding(object, field, message));
        }
    }
    for (i, entry) in policy.units.iter().enumerate().filter(|(_, entry)| !units.contains(entry.name.as_str())) {
        let field = format!("spec.nodeDisruptionPolicy.units[{i}].name");
        let message = format!("no source brings unit {}", quoted(&entry.name));
        let mut finding = rule::POLICY_UNUSED.finding(object, field, message);
        let is_instance = |unit: &&&str| template_of(unit).is_some_and(|template| template == entry.name);
        if let Some(instance) = units.iter().find(is_instance).filter(|_| is_template(&entry.name)) {
            finding.help = format!("an instance takes the entry of its own name, such as {instance}");
        }
        found.push(finding);
    }
}

/// All lists of actions that the spec gives.
fn entries<'p>(cluster: &'p MachineConfiguration, effective: &'p EffectivePolicy) -> Vec<Entry<'p>> {
    let mut entries = Vec::new();
    for (i, entry) in effective.files.iter().enumerate() {
        let taken = move |pool: &PoolView| {
            pool.files().any(|path| effective.file_entry(path).is_some_and(|taken| taken.path == entry.path))
        };
        let at = format!("spec.nodeDisruptionPolicy.files[{i}].actions");
        entries.push(Entry { at, actions: &entry.actions, taken: Box::new(taken) });
    }
    for (i, entry) in effective.units.iter().enumerate() {
        let taken = |pool: &PoolView| pool.units.contains_key(&entry.name);
        let at = format!("spec.nodeDisruptionPolicy.units[{i}].actions");
        entries.push(Entry { at, actions: &entry.actions, taken: Box::new(taken) });
    }
    let at = "spec.nodeDisruptionPolicy.sshkey.actions".to_owned();
    entries.push(Entry { at, actions: &effective.keys, taken: Box::new(|pool: &PoolView| pool.has_keys()) });
    if cluster.spec.default_node_disruption_policy_spec_action.is_some() {
        let taken = |pool: &PoolView| pool.files().any(|path| effective.file_entry(path).is_none());
        let at = "spec.defaultNodeDisruptionPolicySpecAction.files".to_owned();
        entries.push(Entry { at, actions: &effective.default_files, taken: Box::new(taken) });
        let taken = |pool: &PoolView| pool.units.keys().any(|name| effective.unit_entry(name).is_none());
        let at = "spec.defaultNodeDisruptionPolicySpecAction.units".to_owned();
        entries.push(Entry { at, actions: &effective.default_units, taken: Box::new(taken) });
    }
    entries
}

/// What to say when the unit of an action is off in a pool where an item takes the entry.
fn switched_off(entry: &Entry, verb: &str, unit: &str, view: &View) -> Option<String> {
    let pools = |is_off: fn(&UnitItem) -> bool| {
        let off = view.pools().iter().filter(|p| p.units.get(unit).is_some_and(is_off) && (entry.taken)(p));
        off.map(|p| p.pool.name()).collect::<Vec<_>>().join(", ")
    };
    let masked = pools(|unit| unit.mask == Some(true));
    let disabled = pools(|unit| unit.mask != Some(true) && unit.enabled == Some(false));
    let text = format!("{verb} {}", quoted(unit));
    match (masked.as_str(), disabled.as_str()) {
        ("", "") => None,
        ("", pools) => Some(format!("{text}, which is disabled in pool {pools}: it would run all the same")),
        (pools, _) => Some(format!("{text}, which is masked in pool {pools}: it is stopped instead")),
    }
}

/// What to say when a pool's own text of a service cannot be reloaded. A text of the operating system is not known here.
fn not_reloadable(unit: &str, view: &View) -> Option<String> {
    if !unit.ends_with(".service") {
        return None;
    }
    let pools = view.pools().iter().filter(|pool| {
        let template = template_of(unit).and_then(|template| pool.units.get(&template));
        let own = pool.units.get(unit);
        let body = own.and_then(|u| u.contents.as_deref()).or_else(|| template?.contents.as_deref());
        let dropins = template.into_iter().chain(own).flat_map(|u| u.dropins.values().map(String::as_str));
        body.is_some_and(|body| !reloads(std::iter::once(body).chain(dropins)))
    });
    let pools: Vec<&str> = pools.map(|p| p.pool.name()).collect();
    let text = || format!("reloads {}, whose text in pool {} has no ExecReload=", quoted(unit), pools.join(", "));
    (!pools.is_empty()).then(text)
}

/// Whether a service of these texts, a body and its drop-ins, can be reloaded: by a command, or by itself.
fn reloads<'t>(texts: impl Iterator<Item = &'t str>) -> bool {
    let (mut command, mut by_itself) = (false, false);
    for text in texts.map(UnitText::read) {
        for (key, value) in text.section("Service") {
            match key {
                // An empty one takes the earlier ones away.
                "ExecReload" => command = !value.is_empty(),
                "Type" => by_itself = value == "notify-reload",
                _ => {}
            }
        }
    }
    command || by_itself
}

#[cfg(test)]
mod tests;
