//! Changes and their actions against the cases.
//!
//! The reference's own rules are written here as well (what it compares, and which actions it takes): they must give the
//! recorded answer, else the case is not understood. mcx must give what the same configs change *by meaning*, and what the
//! same entries of the policy ask for in our order; where the two differ, a rule says so.

use crate::explicit::Explicit;
use crate::refusal::{self, elements, is_used};
use crate::render::{FIELDS_OF_SYSTEM, folded_keys, foreign_versions, has_special_bits, unknown_os_fields};
use crate::rules::{
    ABSOLUTE, ACTIONS, CLEAN_ENTRY, DAEMON_RELOAD, EMPTY_CONFIG, MEANING, OWNERS, ROOT_ENTRY, SPECIAL_BITS,
};
use crate::translate::{self, Source};
use crate::{Case, Judged, Verdict, reader};
use mcx::api::MachineConfiguration;
use mcx::api::machine_configuration::PolicyAction;
use mcx::change::policy::{EffectivePolicy, problems};
use mcx::change::{self, ChangeSet, Difference};
use mcx::render::ignition;
use mcx::render::items::Items;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Areas of a change that are the operating system's.
const OF_SYSTEM: [&str; 5] = ["extensions", "fips", "kargs", "kernelType", "osUpdate"];

/// What changes: as the reference says it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Change {
    files: BTreeSet<String>,
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
    updated: BTreeSet<String>,
    keys: bool,
}

/// A case of `diff.json`.
pub(crate) fn diff(case: &Case) -> Judged {
    let (input, expect) = (&case.fields["input"], case.answer());
    let (old, new) = (translate::source(&input["old"]), translate::source(&input["new"]));
    let invalid = |source: &Source| !ignition::parse_value(source.ignition()).1.errors.is_empty();
    let kind = match expect {
        Some(expect) => expect["reconcilable"]["kind"].as_str().unwrap_or_default(),
        None if invalid(&old) => "old-config-unparseable",
        None => "new-config-unparseable",
    };
    if expect.map_or_else(|| invalid(&old) || invalid(&new), |expect| expect.get("diff").is_none()) {
        let bad = if kind == "old-config-unparseable" { &old } else { &new };
        return match Items::from_config(bad.ignition()) {
            Err(_) if invalid(bad) => Ok(Verdict::default()),
            Ok(_) if !is_used(bad.ignition()) => Ok(Verdict::rule(EMPTY_CONFIG)),
            found => Err(format!("{kind}: {found:?}")),
        };
    }
    let both = [old.clone(), new.clone()];
    if let Some(verdict) = folded_keys(&both, expect.is_some()).or_else(|| foreign_versions(&both)) {
        return verdict;
    }
    let mut verdict = Verdict::default();
    let (old_rest, new_rest) = (rest(&old, &mut verdict)?, rest(&new, &mut verdict)?);
    let by_rule = as_reference(old.ignition(), new.ignition());
    let Some(expect) = expect else {
        change_set([&old_rest, &new_rest], None, &mut verdict)?;
        actions(&by_rule, [&old_rest, &new_rest], input, None, &mut verdict)?;
        return Ok(verdict);
    };
    if OF_SYSTEM.iter().any(|flag| expect["diff"][*flag] == true) {
        // Kernel arguments are refused as such, all else as unknown keys.
        let fields = unknown_os_fields(&both);
        match fields {
            Ok(fields) => verdict.add(fields),
            Err(_) if verdict.refused.contains("kernel arguments") => {}
            Err(why) => return Err(why),
        }
    }
    reconcilable(&old, &new, &input["overrides"], expect, &mut verdict)?;
    let recorded = recorded_change(&by_rule, &old, &new, expect, &mut verdict)?;
    change_set([&old_rest, &new_rest], Some(expect), &mut verdict)?;
    actions(&recorded, [&old_rest, &new_rest], input, Some(expect), &mut verdict)?;
    Ok(verdict)
}

/// A config without what is refused in it.
fn rest(source: &Source, verdict: &mut Verdict) -> Result<Value, String> {
    let mut sources = [source.clone()];
    refusal::render_rest(&mut sources, &mut Value::Null, verdict)?;
    Ok(sources[0].ignition().clone())
}

/// What the reference would not let through must be refused here, or be one of what only matters beside an old config.
fn reconcilable(
    old: &Source,
    new: &Source,
    overrides: &Value,
    expect: &Value,
    verdict: &mut Verdict,
) -> Result<(), String> {
    let recorded = expect["reconcilable"]["kind"].as_str();
    let by_rule = irreconcilable(old, new, overrides);
    if recorded != by_rule {
        return Err(format!("by the reference's rules {by_rule:?} instead of {recorded:?}"));
    }
    let Some(kind) = recorded else { return Ok(()) };
    let either = |pointer: &str| [old, new].iter().any(|s| s.ignition().pointer(pointer).is_some_and(is_used));
    let (part, pointer) = match kind {
        "disks" | "filesystems" | "raid" | "directories" | "links" => (kind, format!("/storage/{kind}")),
        "ignition-kargs" => ("kernel arguments", "/kernelArguments".to_owned()),
        "passwd-groups" => ("groups", "/passwd/groups".to_owned()),
        "passwd-non-core-user" => ("other users", String::new()),
        "passwd-core-other-fields" => ("other fields of a user", String::new()),
        "file-append" => ("append", String::new()),
        "forbidden-path" => ("mcx's own state", String::new()),
        "fips" => (FIELDS_OF_SYSTEM, String::new()),
        "new-config-invalid" => {
            verdict.add(Verdict::rule(SPECIAL_BITS));
            return Ok(());
        }
        // That the keys of a user are withdrawn, or that an empty list came or went.
        _ => {
            verdict.add(Verdict::rule(ABSOLUTE));
            return Ok(());
        }
    };
    if !pointer.is_empty() && !either(&pointer) {
        verdict.add(Verdict::rule(ABSOLUTE));
        return Ok(());
    }
    verdict.refused.contains(part).then_some(()).ok_or_else(|| format!("{kind} is not refused: {verdict:?}"))
}

/// The first thing for which the reference does not let a node change over, by its rules.
fn irreconcilable(old: &Source, new: &Source, overrides: &Value) -> Option<&'static str> {
    let [before, after] = [old, new].map(|source| reader::in_memory(source.ignition(), ""));
    let differ = |pointer: &str| before.pointer(pointer) != after.pointer(pointer);
    let files = || elements(&after, "/storage/files");
    if files().any(has_special_bits) {
        return Some("new-config-invalid");
    }
    if differ("/passwd/groups") {
        return Some("passwd-groups");
    }
    let users: Vec<&Value> = elements(&after, "/passwd/users").collect();
    if let Some(last) = users.last().filter(|_| differ("/passwd/users")) {
        if users.iter().any(|user| user["name"] != "boot") {
            return Some("passwd-non-core-user");
        }
        if elements(last, "/sshAuthorizedKeys").next().is_none() && last.get("passwordHash").is_none() {
            return Some("passwd-core-without-keys-or-password");
        }
        let known = ["name", "sshAuthorizedKeys", "passwordHash"];
        if last.as_object()?.keys().any(|field| !known.contains(&field.as_str())) {
            return Some("passwd-core-other-fields");
        }
    }
    if differ("/kernelArguments") {
        return Some("ignition-kargs");
    }
    let let_through = |name: &str| overrides["storage"].as_array().into_iter().flatten().any(|given| given == name);
    for (section, name) in [("disks", "Disks"), ("filesystems", "FileSystems"), ("raid", "Raid")] {
        if differ(&format!("/storage/{section}")) && !let_through(name) {
            return Some(section);
        }
    }
    if differ("/storage/directories") {
        return Some("directories");
    }
    if differ("/storage/links") && elements(&after, "/storage/links").next().is_some() {
        return Some("links");
    }
    if files().any(|file| elements(file, "/append").next().is_some()) {
        return Some("file-append");
    }
    if files().any(|file| file["path"] == "/run/machine-config-daemon-force") {
        return Some("forbidden-path");
    }
    let fips = |source: &Source| source.whole["spec"]["fips"] == true;
    (fips(old) != fips(new)).then_some("fips")
}

/// What the reference compares: the elements of the lists, as it has them in memory.
fn as_reference(old: &Value, new: &Value) -> Change {
    let (old, new) = (reader::in_memory(old, ""), reader::in_memory(new, ""));
    let files = |config| by_name(config, "/storage/files", "path");
    let units = |config| by_name(config, "/systemd/units", "name");
    between(&files(&old), &files(&new), &units(&old), &units(&new), old.get("passwd") != new.get("passwd"))
}

/// The recorded change set, which must be what the reference's rules give, but for owners.
fn recorded_change(
    by_rule: &Change,
    old: &Source,
    new: &Source,
    expect: &Value,
    verdict: &mut Verdict,
) -> Result<Change, String> {
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let recorded = Change {
        files: names(&expect["files"]),
        added: names(&expect["units"]["added"]),
        removed: names(&expect["units"]["removed"]),
        updated: names(&expect["units"]["updated"]),
        keys: expect["diff"]["passwd"] == true,
    };
    if *by_rule == recorded {
        return Ok(recorded);
    }
    let without_owners = |config: &Value| {
        let mut config = config.clone();
        for file in config.pointer_mut("/storage/files").and_then(Value::as_array_mut).into_iter().flatten() {
            file.as_object_mut().into_iter().for_each(|fields| fields.retain(|key, _| key != "user" && key != "group"));
        }
        config
    };
    if as_reference(&without_owners(old.ignition()), &without_owners(new.ignition())) == recorded {
        verdict.add(Verdict::rule(OWNERS));
        return Ok(recorded);
    }
    Err(format!("by the reference's rules {by_rule:?} instead of {recorded:?}"))
}

/// What changes by meaning.
fn by_meaning(old: &Value, new: &Value) -> Change {
    let (old, new) = (Explicit::of(old).decoded(), Explicit::of(new).decoded());
    between(&old.files, &new.files, &old.units, &new.units, old.keys != new.keys)
}

fn by_name(config: &Value, list: &str, key: &str) -> BTreeMap<String, Value> {
    elements(config, list).map(|item| (item[key].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
}

fn between(
    old_files: &BTreeMap<String, Value>,
    new_files: &BTreeMap<String, Value>,
    old_units: &BTreeMap<String, Value>,
    new_units: &BTreeMap<String, Value>,
    keys: bool,
) -> Change {
    let missing = |a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>| -> BTreeSet<String> {
        a.keys().filter(|name| !b.contains_key(*name)).cloned().collect()
    };
    let differ = |a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>| -> BTreeSet<String> {
        a.iter()
            .filter(|(name, item)| b.get(*name).is_some_and(|other| other != *item))
            .map(|(n, _)| n.clone())
            .collect()
    };
    let mut files = differ(old_files, new_files);
    files.extend(missing(old_files, new_files));
    files.extend(missing(new_files, old_files));
    Change {
        files,
        added: missing(new_units, old_units),
        removed: missing(old_units, new_units),
        updated: differ(old_units, new_units),
        keys,
    }
}

fn ours(rest: [&Value; 2]) -> Result<ChangeSet, String> {
    let [old, new] = rest.map(Items::from_config);
    let refused = |errors: Vec<String>| format!("refused: {errors:?}");
    Ok(ChangeSet::between(&old.map_err(refused)?, &new.map_err(refused)?))
}

fn change_set(rest: [&Value; 2], expect: Option<&Value>, verdict: &mut Verdict) -> Result<(), String> {
    let change = ours(rest)?;
    let units =
        |wanted: Difference| change.units.iter().filter(move |(_, d)| **d == wanted).map(|(n, _)| n.clone()).collect();
    let found = Change {
        files: change.files.keys().cloned().collect(),
        added: units(Difference::Added),
        removed: units(Difference::Removed),
        updated: units(Difference::Changed),
        keys: change.keys.is_some(),
    };
    let meant = by_meaning(rest[0], rest[1]);
    if found != meant {
        return Err(format!("{found:?} instead of {meant:?} by meaning"));
    }
    // What differs in what is left of both configs is a difference by meaning.
    let moved = |path: &String| refusal::moved(path).unwrap_or_else(|| path.clone());
    let mut theirs_of_rest = as_reference(rest[0], rest[1]);
    theirs_of_rest.files = theirs_of_rest.files.iter().map(moved).collect();
    let touched = [
        ("files", !found.files.is_empty()),
        ("units", found.added.len() + found.removed.len() + found.updated.len() > 0),
    ];
    let flagged = expect.is_some_and(|e| touched.iter().any(|(flag, touched)| (e["diff"][*flag] == true) != *touched));
    if meant != theirs_of_rest || (flagged && verdict.refused.is_empty()) {
        verdict.add(Verdict::rule(MEANING));
    }
    Ok(())
}

/// An action as both sides print it: `Restart a.service`.
fn printed(action: &PolicyAction) -> String {
    let service = action.reload.as_ref().or(action.restart.as_ref()).map(|s| format!(" {}", s.service_name));
    format!("{}{}", action.type_, service.unwrap_or_default())
}

/// The entry of a file, by the longest path that is it or a parent of it. The reference never finds an entry for `/`.
fn entry_of_file(policy: &EffectivePolicy, path: &str, with_root: bool) -> Option<usize> {
    let within = |entry: &str| match entry.trim_end_matches('/') {
        "" => with_root && entry == "/",
        entry => path.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    };
    let entries = policy.files.iter().enumerate().filter(|(_, entry)| within(&entry.path));
    entries.max_by_key(|(_, entry)| entry.path.trim_end_matches('/').len()).map(|(i, _)| i)
}

/// Which actions each changed item asks for, with the place of its entry: files, units, keys.
fn asked(change: &Change, policy: &EffectivePolicy, with_root: bool) -> Vec<((usize, usize), Vec<String>)> {
    let texts = |actions: &[PolicyAction]| actions.iter().map(printed).collect::<Vec<_>>();
    let mut all = Vec::new();
    for path in &change.files {
        all.push(match entry_of_file(policy, path, with_root) {
            Some(i) => ((0, i), texts(&policy.files[i].actions)),
            None => ((0, usize::MAX), texts(&policy.default_files)),
        });
    }
    for name in change.added.iter().chain(&change.updated).chain(&change.removed) {
        all.push(match policy.units.iter().position(|entry| entry.name == *name) {
            Some(i) => ((1, i), texts(&policy.units[i].actions)),
            None => ((1, usize::MAX), texts(&policy.default_units)),
        });
    }
    if change.keys {
        all.push(((2, 0), texts(&policy.keys)));
    }
    all
}

/// The reference's list.
fn in_reference_form(asked: &[((usize, usize), Vec<String>)], flagged: bool) -> Vec<String> {
    let mut list: Vec<String> = asked.iter().flat_map(|(_, actions)| actions.clone()).collect();
    if !flagged {
        return vec!["None".to_owned()];
    }
    if list.iter().any(|action| action == "Reboot") {
        return vec!["Reboot".to_owned()];
    }
    if list.iter().any(|action| action != "None") {
        list.retain(|action| action != "None");
    } else {
        list.truncate(1);
    }
    list
}

/// Ours: in the policy's order, each once, restart swallows reload, one daemon-reload before the first of both, and one in
/// any case when a unit changes.
fn in_our_form(mut asked: Vec<((usize, usize), Vec<String>)>, writes_units: bool) -> Vec<String> {
    asked.sort_by_key(|(place, _)| *place);
    let all: Vec<String> = asked.into_iter().flat_map(|(_, actions)| actions).filter(|a| a != "None").collect();
    if all.iter().any(|action| action == "Reboot") {
        return vec!["Reboot".to_owned()];
    }
    let mut list: Vec<String> = Vec::new();
    for action in &all {
        let stronger = action.strip_prefix("Reload ").map(|service| format!("Restart {service}"));
        if !list.contains(action) && !stronger.is_some_and(|stronger| all.contains(&stronger)) {
            list.push(action.clone());
        }
    }
    let first = |list: &[String]| list.iter().position(|a| a.starts_with("Reload ") || a.starts_with("Restart "));
    match (list.iter().position(|a| a == "DaemonReload"), first(&list)) {
        (Some(at), Some(before)) if at > before => {
            let reload = list.remove(at);
            list.insert(before, reload);
        }
        (None, before) if writes_units => list.insert(before.unwrap_or(list.len()), "DaemonReload".to_owned()),
        _ => {}
    }
    list
}

fn actions(
    theirs: &Change,
    rest: [&Value; 2],
    input: &Value,
    expect: Option<&Value>,
    verdict: &mut Verdict,
) -> Result<(), String> {
    let policy = translate::policy(input);
    let mut exact = true;
    if let Some(expect) = expect {
        let mut recorded: Vec<String> = translate::actions(&expect["actions"]).iter().map(printed).collect();
        let flag = |name: &&str| expect["diff"][*name] == true;
        let mut by_rule = if OF_SYSTEM.iter().any(flag) {
            vec!["Reboot".to_owned()]
        } else {
            in_reference_form(&asked(theirs, &policy, false), ["files", "units", "passwd"].iter().any(flag))
        };
        // The reference's order across files is that of a map in memory.
        exact = recorded == by_rule;
        recorded.sort();
        by_rule.sort();
        if recorded != by_rule {
            return Err(format!("by the reference's rules {by_rule:?} instead of {recorded:?}"));
        }
    }
    let policy = clean(policy, verdict)?;
    let change = ours(rest)?;
    let found: Vec<String> = change::actions(&change, &policy).list.iter().map(ToString::to_string).collect();
    let meant = by_meaning(rest[0], rest[1]);
    let systemd = |path: &String| path.starts_with("/etc/systemd/system/");
    let writes_units =
        meant.added.len() + meant.removed.len() + meant.updated.len() > 0 || meant.files.iter().any(systemd);
    let expected = in_our_form(asked(&meant, &policy, true), writes_units);
    if found != expected {
        return Err(format!("{found:?} instead of {expected:?} by the policy"));
    }
    // Which of the differences between the two ways matter here.
    let (plain, rooted) = (asked(&meant, &policy, false), asked(&meant, &policy, true));
    if plain != rooted {
        verdict.add(Verdict::rule(ROOT_ENTRY));
    }
    if in_our_form(rooted.clone(), false) != expected {
        verdict.add(Verdict::rule(DAEMON_RELOAD));
    }
    let mut as_there = in_reference_form(&rooted, true);
    as_there.retain(|action| action != "None");
    if in_our_form(rooted, false) != as_there || !exact {
        verdict.add(Verdict::rule(ACTIONS));
    }
    Ok(())
}

/// The policy, if it may be in effect; else it must be refused for each path that is not clean, and is taken with clean ones
/// and without those that are no path of any file.
fn clean(mut policy: EffectivePolicy, verdict: &mut Verdict) -> Result<EffectivePolicy, String> {
    let object = |policy: &EffectivePolicy| -> MachineConfiguration {
        let entries: Vec<Value> = policy.files.iter().map(|entry| json!({"path": entry.path})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "cluster"},
            "spec": {"nodeDisruptionPolicy": {"files": entries}},
        }))
        .unwrap()
    };
    let said = problems(&object(&policy));
    for (i, entry) in policy.files.iter_mut().enumerate() {
        let cleaned = if entry.path.starts_with('/') { entry.path.trim_end_matches('/') } else { "" };
        if entry.path == "/" || cleaned == entry.path && !cleaned.is_empty() {
            continue;
        }
        let field = format!("spec.nodeDisruptionPolicy.files[{i}].path: ");
        if !said.iter().any(|problem| problem.starts_with(&field)) {
            return Err(format!("{} is not refused: {said:?}", entry.path));
        }
        entry.path = cleaned.to_owned();
        verdict.add(Verdict::rule(CLEAN_ENTRY));
    }
    policy.files.retain(|entry| !entry.path.is_empty());
    let left = problems(&object(&policy));
    if left.is_empty() { Ok(policy) } else { Err(format!("the policy is refused: {left:?}")) }
}
