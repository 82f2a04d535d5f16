//! Validation, merge and contents against the cases.

use crate::rules::{CASE, LAST_WINS, NAMES_FIELDS};
use crate::{Case, Judged, Verdict, ordered::Ordered, reader};
use mcx::render::ignition::{self, Config, Entry, Report, contents};
use serde_json::Value;
use sha2::Digest as _;

pub(crate) fn validate(case: &Case) -> Judged {
    let expect = case.answer();
    let raw = case.fields.get("raw").and_then(Value::as_str);
    let text = raw.map_or_else(|| case.fields["input"].to_string(), str::to_owned);
    let (config, report) = ignition::parse(text.as_bytes());
    if config.is_some() != report.errors.is_empty() {
        return Err(format!("a config and errors do not go together: {report:?}"));
    }
    let Some(expect) = expect else { return Ok(Verdict::default()) };
    if let Some(verdict) = agreement(&report, expect, &[]) {
        return Ok(verdict);
    }
    let as_written = raw.map_or_else(|| Some(case.text.get("input").clone()), Ordered::parse);
    as_written
        .and_then(|text| reader_oddity(&text, &report, expect))
        .ok_or_else(|| format!("{report:?} instead of {expect}"))
}

/// Whether our findings are the expected ones, or the same but for the place of type and version errors. `warned` are
/// pointers that the reference warns of and we need not.
fn agreement(report: &Report, expect: &Value, warned: &[String]) -> Option<Verdict> {
    let (errors, mut warnings) = (pointers(&report.errors), pointers(&report.warnings));
    let expected = paths(&expect["errors"]);
    if report.errors.is_empty() != expect["ok"].as_bool()? {
        return None;
    }
    if expected == [""] {
        // The reference finds one such thing and looks no further; we name all, each at its field, or the document.
        return match expect["errors"][0]["kind"].as_str() {
            _ if errors == [""] && warnings == paths(&expect["warnings"]) => Some(Verdict::default()),
            Some("json: wrong type for field") if all_mismatches(&report.errors) => Some(Verdict::rule(NAMES_FIELDS)),
            Some("unsupported config version") if errors == ["/ignition/version"] => Some(Verdict::rule(NAMES_FIELDS)),
            _ => None,
        };
    }
    warnings.extend_from_slice(warned);
    warnings.sort();
    (errors == expected && warnings == paths(&expect["warnings"])).then(Verdict::default)
}

/// Keys in other case and repeated keys: ours must be what the text says without the former and with the last of the
/// latter, plus a warning for each key in other case; and the reference's must be what its reader makes of the text.
fn reader_oddity(text: &Ordered, ours: &Report, expect: &Value) -> Option<Verdict> {
    let mut folded = reader::folded_keys(text);
    folded.sort();
    if folded.is_empty() && !text.repeats() {
        return None;
    }
    let (_, plain) = ignition::parse_value(&reader::exact(text));
    let mut warned = pointers(&plain.warnings);
    // A foreign version hides warnings.
    if ours.warnings.len() > warned.len() || pointers(&plain.errors) != ["/ignition/version"] {
        warned.extend(pointers(&ours.warnings).into_iter().filter(|at| folded.contains(at)));
        warned.sort();
        // Below an unknown key nothing is looked at.
        let within = |at: &String| folded.iter().any(|key| at.starts_with(&format!("{key}/")));
        if folded.iter().any(|key| !warned.contains(key) && !within(key)) {
            return None;
        }
    }
    let as_written = pointers(&ours.errors) == pointers(&plain.errors) && pointers(&ours.warnings) == warned;
    let (_, theirs) = ignition::parse_value(&reader::as_reference(text));
    let as_read = agreement(&theirs, expect, &folded).is_some();
    (as_written && as_read).then(|| Verdict::rule(if folded.is_empty() { LAST_WINS } else { CASE }))
}

/// Whether all are type errors, and only one of them can be at the whole document.
fn all_mismatches(errors: &[Entry]) -> bool {
    !errors.is_empty() && errors.iter().all(|entry| entry.message.starts_with("expected "))
}

pub(crate) fn merge(case: &Case) -> Judged {
    let inputs: Vec<Value> = case.fields["input"].as_array().unwrap().clone();
    let Some(expect) = case.answer() else { return stacked(&inputs).map(|_| Verdict::default()) };
    let Err(why) = merged(&inputs, expect) else { return Ok(Verdict::default()) };
    let texts = case.text.get("input").items();
    let folded = texts.iter().any(|text| !reader::folded_keys(text).is_empty());
    if !folded {
        return Err(why);
    }
    // Ours must be the merge of what is written without such keys, and the reference's that of what it reads.
    let plain: Vec<Value> = texts.iter().map(reader::exact).collect();
    let read: Vec<Value> = texts.iter().map(reader::as_reference).collect();
    if fold(&inputs)? != fold(&plain)? {
        return Err(format!("a key in other case has an effect; {why}"));
    }
    merged(&read, expect).map(|()| Verdict::rule(CASE))
}

/// The merge of all, from left to right.
pub(crate) fn fold(inputs: &[Value]) -> Result<Config, String> {
    let read: Vec<Config> =
        inputs.iter().map(ignition::read_value).collect::<Result<_, _>>().map_err(|error| format!("{error:?}"))?;
    Ok(read[1..].iter().fold(read[0].clone(), |parent, child| ignition::merge(&parent, child)))
}

/// The same, which the stack of all must come to as well.
fn stacked(inputs: &[Value]) -> Result<Config, String> {
    let merged = fold(inputs)?;
    let mut read = inputs.iter().map(|input| ignition::read_value(input).unwrap());
    let mut layers = ignition::Layers::new(read.next().unwrap(), ignition::ContentsRule::ByField);
    for child in read {
        layers.lay(child);
    }
    if layers.finish() == merged { Ok(merged) } else { Err("the stack differs from single merges".to_owned()) }
}

fn merged(inputs: &[Value], expect: &Value) -> Result<(), String> {
    for (i, input) in inputs.iter().enumerate() {
        let valid = ignition::parse_value(input).1.errors.is_empty();
        if valid != expect["inputs_valid"][i].as_bool().unwrap() {
            return Err(format!("input {i}: valid is {valid}"));
        }
    }
    let merged = stacked(inputs)?;
    let expected = ignition::read_value(&expect["config"]).map_err(|error| format!("{error:?}"))?;
    if merged != expected {
        return Err(format!("{} instead of {}", merged.0, expected.0));
    }
    let report = ignition::validate(&merged);
    if report.errors.is_empty() != expect["result_valid"].as_bool().unwrap()
        || pointers(&report.errors) != paths(&expect["result_errors"])
    {
        return Err(format!("{report:?} instead of {}", expect["result_errors"]));
    }
    Ok(())
}

pub(crate) fn datafile(case: &Case) -> Judged {
    let (input, expect) = (&case.fields["input"], &case.fields["expect"]);
    let field = |name: &str| input.get(name).and_then(Value::as_str);
    let found = contents::decode(field("source"), field("compression"), 1 << 20);
    match (&found, expect["ok"].as_bool().unwrap()) {
        (Err(_), false) => Ok(Verdict::default()),
        (Ok(bytes), true) => {
            let sum = sha2::Sha256::digest(bytes).iter().fold(String::new(), |sum, byte| sum + &format!("{byte:02x}"));
            if bytes.len() as u64 == expect["size"].as_u64().unwrap() && expect["sha256"] == sum {
                Ok(Verdict::default())
            } else {
                Err(format!("{} bytes, {sum}", bytes.len()))
            }
        }
        _ => Err(format!("{:?} instead of {expect}", found.map(|bytes| bytes.len()))),
    }
}

fn pointers(entries: &[Entry]) -> Vec<String> {
    let mut pointers: Vec<String> = entries.iter().map(|entry| entry.pointer.clone()).collect();
    pointers.sort();
    pointers
}

fn paths(entries: &Value) -> Vec<String> {
    let mut paths: Vec<String> =
        entries.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect();
    paths.sort();
    paths
}
