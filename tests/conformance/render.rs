//! Rendering, and the check of a single source, against the cases.

use crate::explicit::Explicit;
use crate::refusal::{self, elements};
use crate::rules::{
    CASE, EMPTY_CONFIG, LABELS, NO_SOURCES, ONLY_3_4_0, OVERWRITE, PLAIN_ORDER, SPECIAL_BITS, WHOLE_CONTENTS,
};
use crate::translate::{self, OS_FIELDS, Source};
use crate::{Case, Judged, Verdict, reader};
use mcx::render::finding::{Finding, Severity};
use mcx::render::load::{self, Input};
use mcx::render::path::to_pointer;
use mcx::render::{Outcome, ignition, render as render_pool, survey};
use serde_json::{Value, json};

const VERSION: &str = "3.4.0";
/// Versions that the peer converts; the older 3.x say nothing that 3.4.0 says otherwise.
const CONVERTED: [&str; 5] = ["2.2.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0"];
/// Part of a verdict.
pub(crate) const FIELDS_OF_SYSTEM: &str = "fields of the operating system (unknown keys)";

/// A case of `render.json`.
pub(crate) fn render(case: &Case) -> Judged {
    let sources = translate::sources(&case.fields["input"]);
    let Some(expect) = case.answer() else { return unanswered(&sources) };
    if sources.is_empty() {
        let outcome = render_pool(&translate::pool(), &[]);
        let nothing = expect["ok"] == true && expect["machineConfig"].is_null();
        return (nothing && outcome.no_sources)
            .then(|| Verdict::rule(NO_SOURCES))
            .ok_or_else(|| "no sources".to_owned());
    }
    if expect["ok"] == true {
        let answer = translate::config(&expect["machineConfig"]["config"]);
        accepted(&sources, &answer, expect["mergedValid"].as_bool())
    } else {
        refused(&sources, expect["kind"].as_str().unwrap_or_default())
    }
}

/// A case of which the reference was not asked: what it would say is what its rules make of what our Ignition layer merges.
fn unanswered(sources: &[Source]) -> Judged {
    if accepted_by_the_specification(sources).is_err() {
        return refused(sources, "ignition-invalid");
    }
    if let Some(verdict) = folded_keys(sources, false) {
        return verdict;
    }
    let merged = translate::peer_merge(&translate::in_peer_order(sources))?;
    accepted(sources, &merged, None)
}

/// A case of `mcvalidate.json`.
pub(crate) fn source(case: &Case) -> Judged {
    let source = translate::source(&case.fields["input"]);
    let invalid = || accepted_by_the_specification(std::slice::from_ref(&source)).is_err();
    match case.answer() {
        Some(expect) if expect["ok"] == false => {
            return refused(&[source], expect["kind"].as_str().unwrap_or_default());
        }
        None if invalid() => return refused(&[source], "ignition-invalid"),
        _ => {}
    }
    let mut sources = [source];
    let of_source = |findings: &[Finding]| -> Vec<Finding> { errors(findings).cloned().collect() };
    let said = alone(&sources[0]);
    let rendered = render_pool(&translate::pool(), &[sources[0].machine_config()]);
    if said.iter().any(|f| f.severity == Severity::Error) && rendered.rendered.is_some() {
        return Err(format!("refused alone and rendered: {:?}", of_source(&said)));
    }
    if let Some(verdict) = folded_keys(&sources, case.answer().is_some()).or_else(|| foreign_versions(&sources)) {
        return verdict;
    }
    accepted_by_the_specification(&sources)?;
    if case.answer().is_some() && elements(sources[0].ignition(), "/storage/files").any(has_special_bits) {
        return Err("the reference accepts a mode with special bits".to_owned());
    }
    let mut verdict = Verdict::default();
    refusal::render_rest(&mut sources, &mut Value::Null, &mut verdict)?;
    Ok(verdict)
}

/// What is said of a source that no pool selects.
fn alone(source: &Source) -> Vec<Finding> {
    let config = [source.machine_config()];
    std::mem::take(&mut survey(&[], &config, &[]).findings)
}

fn errors(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|f| f.severity == Severity::Error)
}

fn object(source: &Source) -> String {
    format!("MachineConfig/{}", source.name())
}

/// The version that a config names.
fn version(config: &Value) -> &str {
    config["ignition"]["version"].as_str().unwrap_or_default()
}

/// The config as one of our version, when the peer converts it and that is all there is to convert.
fn upgraded(config: &Value) -> Option<Value> {
    let found = version(config);
    (found.starts_with("3.") && CONVERTED.contains(&found)).then(|| {
        let mut config = config.clone();
        config["ignition"]["version"] = VERSION.into();
        config
    })
}

/// When some source that the reference accepts is of another version: mcx must say that of it, and nothing else.
pub(crate) fn foreign_versions(sources: &[Source]) -> Option<Judged> {
    let foreign = |source: &&Source| !source.ignition().is_null() && version(source.ignition()) != VERSION;
    let foreign: Vec<&Source> = sources.iter().filter(foreign).collect();
    if foreign.is_empty() {
        return None;
    }
    for source in foreign {
        let found = alone(source);
        let said: Vec<&str> = errors(&found).filter(|f| f.path.starts_with("spec.config")).map(|f| f.rule).collect();
        if said != ["ignition-version"] {
            return Some(Err(format!("{} has another version: {found:?}", source.name())));
        }
        let otherwise_spelled = ignition::parse_value(source.ignition()).1.errors.is_empty();
        if !CONVERTED.contains(&version(source.ignition())) && !otherwise_spelled {
            return Some(Err(format!("the reference accepts version {}", version(source.ignition()))));
        }
    }
    let configs: Vec<_> = sources.iter().map(Source::machine_config).collect();
    let refused = render_pool(&translate::pool(), &configs).rendered.is_none();
    Some(refused.then(|| Verdict::rule(ONLY_3_4_0)).ok_or_else(|| "another version is rendered".to_owned()))
}

/// When some source has keys in other case: mcx must refuse each as unknown, or the section that it is in; and if the
/// reference accepted the source, it must be valid as the reference reads it.
pub(crate) fn folded_keys(sources: &[Source], is_accepted: bool) -> Option<Judged> {
    let mut any = false;
    for source in sources {
        let text = crate::ordered::Ordered::parse(&source.ignition().to_string())?;
        let folded = reader::folded_keys(&text);
        if folded.is_empty() {
            continue;
        }
        any = true;
        let (_, theirs) = ignition::parse_value(&reader::as_reference(&text));
        let found = alone(source);
        let named = |key: &String| {
            let key = format!("/spec/config{key}");
            errors(&found).any(|f| match f.rule {
                "unknown-key" => to_pointer(&f.path) == key,
                "unsupported" => key.starts_with(&format!("{}/", to_pointer(&f.path))),
                _ => false,
            })
        };
        // Below an unknown key nothing is looked at.
        let within = |key: &String| folded.iter().any(|other| key.starts_with(&format!("{other}/")));
        if is_accepted && !theirs.errors.is_empty() || folded.iter().any(|key| !named(key) && !within(key)) {
            return Some(Err(format!("{folded:?} of {}: {found:?}, {theirs:?}", source.name())));
        }
    }
    any.then(|| Ok(Verdict::rule(CASE)))
}

/// What the reference accepts, our Ignition layer accepts.
fn accepted_by_the_specification(sources: &[Source]) -> Result<(), String> {
    for source in sources.iter().filter(|s| !s.ignition().is_null()) {
        let (_, said) = ignition::parse_value(source.ignition());
        if !said.errors.is_empty() {
            return Err(format!("the Ignition layer refuses {}: {:?}", source.name(), said.errors));
        }
    }
    Ok(())
}

/// A case that the reference refuses.
fn refused(sources: &[Source], kind: &str) -> Judged {
    let configs: Vec<_> = sources.iter().map(Source::machine_config).collect();
    let outcome = render_pool(&translate::pool(), &configs);
    match kind {
        "labels-missing" if sources.iter().any(|s| !s.labelled) => {
            // Nothing else may be wrong with what the reference stops at.
            let mut verdict = Verdict::rule(LABELS);
            refusal::render_rest(&mut sources.to_vec(), &mut Value::Null, &mut verdict)?;
            Ok(verdict)
        }
        "kernel-type" | "extensions" | "kernel-devel-with-kernel-type" => {
            let mut verdict = unknown_os_fields(sources)?;
            refusal::render_rest(&mut sources.to_vec(), &mut Value::Null, &mut verdict)?;
            Ok(verdict)
        }
        "file-mode" => {
            let mut verdict = special_bits(sources)?;
            refusal::render_rest(&mut sources.to_vec(), &mut Value::Null, &mut verdict)?;
            Ok(verdict)
        }
        _ if kind.starts_with("ignition-") => {
            let of_specification = |s: &&Source| !ignition::parse_value(s.ignition()).1.errors.is_empty();
            let bad: Vec<&Source> =
                sources.iter().filter(|s| !s.ignition().is_null()).filter(of_specification).collect();
            if bad.is_empty() {
                return by_reader(sources, &outcome);
            }
            let is_empty = |source: &&Source| source.ignition().as_object().is_some_and(serde_json::Map::is_empty);
            let is_refused = |source: &&Source| errors(&outcome.findings).any(|f| f.object == object(source));
            if let Some(source) = bad.iter().find(|s| !is_empty(s) && !is_refused(s)) {
                return Err(format!("{} is not refused: {:?}", source.name(), outcome.findings));
            }
            if !bad.iter().all(is_empty) {
                // Not only for a version that the reference would convert.
                let theirs = |source: &&Source| match upgraded(source.ignition()) {
                    Some(config) => !ignition::parse_value(&config).1.errors.is_empty(),
                    None => true,
                };
                return if bad.iter().any(theirs) {
                    Ok(Verdict::default())
                } else {
                    Err("only older versions".to_owned())
                };
            }
            // Only what the reference takes for a config without a version: it must change nothing here.
            let mut verdict = Verdict::rule(EMPTY_CONFIG);
            refusal::render_rest(&mut sources.to_vec(), &mut Value::Null, &mut verdict)?;
            Ok(verdict)
        }
        _ => Err(format!("refused for {kind}, here {:?}", outcome.findings)),
    }
}

/// When only the reference's way of reading keys makes a config wrong: the key is unknown to us.
fn by_reader(sources: &[Source], outcome: &Outcome) -> Judged {
    let folded = sources.iter().any(|source| {
        let text = crate::ordered::Ordered::parse(&source.ignition().to_string()).unwrap();
        let theirs = reader::as_reference(&text);
        !reader::folded_keys(&text).is_empty() && !ignition::parse_value(&theirs).1.errors.is_empty()
    });
    let unknown = errors(&outcome.findings).any(|f| f.rule == "unknown-key");
    (folded && unknown).then(|| Verdict::rule(CASE)).ok_or_else(|| format!("not refused: {:?}", outcome.findings))
}

/// Sources whose fields of the operating system are all unknown to mcx.
pub(crate) fn unknown_os_fields(sources: &[Source]) -> Judged {
    let mut verdict = Verdict::default();
    for source in sources {
        let fields = source.whole["spec"].as_object().unwrap().iter();
        let given = fields.filter(|(name, value)| OS_FIELDS.contains(&name.as_str()) && !value.is_null());
        let input = Input { name: "case".to_owned(), bytes: source.whole.to_string().into_bytes() };
        let findings = load::load(vec![input]).findings;
        for (field, _) in given {
            let path = format!("spec.{field}");
            if !errors(&findings).any(|f| f.rule == "unknown-key" && f.path == path) {
                return Err(format!("{path} is not refused as unknown: {findings:?}"));
            }
            verdict.add(Verdict::refused(FIELDS_OF_SYSTEM));
        }
    }
    if verdict.refused.is_empty() { Err("no field of the operating system is given".to_owned()) } else { Ok(verdict) }
}

/// Whether a file's mode has more than permission bits.
pub(crate) fn has_special_bits(file: &Value) -> bool {
    file["mode"].as_i64().is_some_and(|mode| mode > 0o777)
}

/// Files whose mode has more than permission bits are warned of, each.
fn special_bits(sources: &[Source]) -> Judged {
    let mut verdict = Verdict::default();
    for source in sources {
        let found = alone(source);
        for (i, file) in elements(source.ignition(), "/storage/files").enumerate() {
            if !has_special_bits(file) {
                continue;
            }
            let path = format!("spec.config.storage.files[{i}].mode");
            let warned = |f: &Finding| ["mode-special", "mode-decimal"].contains(&f.rule) && f.path == path;
            if !found.iter().any(|f| f.severity == Severity::Warning && warned(f)) {
                return Err(format!("{path} is not warned of: {found:?}"));
            }
            verdict.add(Verdict::rule(SPECIAL_BITS));
        }
    }
    if verdict.rules.is_empty() { Err("no mode has special bits".to_owned()) } else { Ok(verdict) }
}

/// A case that the reference renders.
fn accepted(sources: &[Source], answer: &Value, valid: Option<bool>) -> Judged {
    if let Some(source) = sources.iter().find(|s| !s.labelled) {
        return Err(format!("{} has no labels, and the reference renders it", source.name()));
    }
    if let Some(verdict) = folded_keys(sources, true) {
        return verdict;
    }
    if let Some(verdict) = foreign_versions(sources) {
        let mut verdict = verdict?;
        // With the version written as the finding says, the rest must come out as converted.
        let mut sources = translate::in_peer_order(sources);
        for (i, source) in sources.iter_mut().enumerate() {
            let name = format!("{i:03}-{}", source.name());
            if version(source.ignition()) != VERSION && !source.ignition().is_null() {
                let Some(config) = upgraded(source.ignition()) else { return Ok(verdict) };
                *source.ignition_mut() = config;
            }
            source.config.metadata.name = Some(name);
        }
        verdict.add(rest_is_expected(&sources, answer)?);
        return Ok(verdict);
    }
    accepted_by_the_specification(sources)?;
    let in_peer_order = translate::in_peer_order(sources);
    let merged = translate::peer_merge(&in_peer_order)?;
    let expected = ignition::read_value(answer).map_err(|error| format!("{error:?}"))?.0;
    if merged != expected {
        return Err(format!("merged by the peer's rules: {merged} instead of {expected}"));
    }
    let invalid =
        !ignition::parse_value(answer).1.errors.is_empty() || elements(answer, "/storage/files").any(has_special_bits);
    if invalid && valid == Some(true) {
        return Err("the answer is valid, and the Ignition layer refuses it".to_owned());
    }
    let plain = rest_is_expected(sources, answer);
    if plain.is_ok() {
        return plain;
    }
    // The same under names that sort as the peer does, if that makes a difference.
    let mut by_name = sources.to_vec();
    by_name.sort_by(|a, b| a.name().cmp(b.name()));
    if by_name.iter().map(Source::name).eq(in_peer_order.iter().map(Source::name)) {
        return plain;
    }
    let mut renamed = in_peer_order;
    for (i, source) in renamed.iter_mut().enumerate() {
        source.config.metadata.name = Some(format!("{i:03}-{}", source.name()));
    }
    let mut verdict = rest_is_expected(&renamed, answer)?;
    verdict.add(Verdict::rule(PLAIN_ORDER));
    Ok(verdict)
}

/// What mcx renders of what it does not refuse is the answer without the same.
fn rest_is_expected(sources: &[Source], answer: &Value) -> Judged {
    let (mut sources, mut answer) = (sources.to_vec(), answer.clone());
    let mut verdict = Verdict::default();
    let outcome = refusal::render_rest(&mut sources, &mut answer, &mut verdict)?;
    let rendered = outcome.rendered.ok_or("not rendered")?;
    let config = rendered.config.to_value();
    let (ours, theirs) = (Explicit::of(&config), Explicit::of(&answer));
    if ours.to_config() != config {
        return Err(format!("not in explicit form: {config}"));
    }
    if elements(&answer, "/storage/files").any(|file| file["overwrite"] == false) {
        if !outcome.findings.iter().any(|f| f.rule == "overwrite") {
            return Err("overwrite: false is not warned of".to_owned());
        }
        verdict.add(Verdict::rule(OVERWRITE));
    }
    if ours == theirs {
        return Ok(verdict);
    }
    if ours.units != theirs.units || ours.keys != theirs.keys || !ours.files.keys().eq(theirs.files.keys()) {
        return Err(format!("{config} instead of {}", theirs.to_config()));
    }
    for (path, file) in ours.files.iter().filter(|(path, file)| theirs.files[*path] != **file) {
        let mut theirs = theirs.files[path].clone();
        let whole = json!({"path": path, "contents": refusal::whole_contents(path, &sources)});
        let whole = Explicit::of(&json!({"storage": {"files": [whole]}}));
        theirs["contents"] = whole.files[path]["contents"].clone();
        if theirs != *file {
            return Err(format!("{file} instead of {theirs}"));
        }
        verdict.add(Verdict::rule(WHOLE_CONTENTS));
    }
    Ok(verdict)
}
