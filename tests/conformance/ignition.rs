//! Validation, merge and contents against the cases.

use crate::Outcome;
use mcx::render::ignition::{self, Config, Entry, contents};
use serde_json::Value;
use sha2::Digest as _;

/// The reference names the document when a type or the version is wrong; we name each field.
const NAMES_FIELDS: &str = "type and version errors name their field instead of the document";
/// The reference reads `MODE` as `mode`, with a warning; nobody else does, and a node would not agree.
const CASE: &str = "a key in other letter case is an unknown key, and its value is not used";
/// The reference merges the objects and lists of repeated keys; for the API server the last one counts.
const LAST_WINS: &str = "of a repeated key in JSON text the last one counts, as a whole";

pub(crate) fn validate(case: &Value) -> Outcome {
    let expect = &case["expect"];
    let raw = case.get("raw").and_then(Value::as_str);
    let text = raw.map_or_else(|| case["input"].to_string(), str::to_owned);
    let (config, report) = ignition::parse(text.as_bytes());
    if config.is_some() != report.errors.is_empty() {
        return Outcome::Failed(format!("a config and errors do not go together: {report:?}"));
    }
    let (errors, warnings) = (pointers(&report.errors), pointers(&report.warnings));
    let (expected_errors, expected_warnings) = (paths(&expect["errors"]), paths(&expect["warnings"]));
    let ok = report.errors.is_empty() == expect["ok"].as_bool().unwrap();
    if ok && errors == expected_errors && warnings == expected_warnings {
        return Outcome::Equal;
    }
    let kind = expect["errors"][0]["kind"].as_str();
    let of_document = expected_errors == [""];
    if ok && of_document && kind == Some("json: wrong type for field") && all_mismatches(&report.errors) {
        return Outcome::Deliberate(NAMES_FIELDS);
    }
    if ok && of_document && kind == Some("unsupported config version") && errors == ["/ignition/version"] {
        return Outcome::Deliberate(NAMES_FIELDS);
    }
    let input: Value = serde_json::from_str(&text).unwrap_or_default();
    let mut folded = Vec::new();
    folded_keys(&input, "", &mut folded);
    // The key must be warned about, unless its absence is an error that hides warnings.
    if !folded.is_empty() && (folded.iter().all(|key| warnings.contains(key)) || errors == ["/ignition/version"]) {
        return Outcome::Deliberate(CASE);
    }
    if raw.is_some_and(|raw| has_repeated_key(raw, &input)) {
        // It must be read as what the last keys say.
        let (_, of_last) = ignition::parse_value(&input);
        if of_last == report {
            return Outcome::Deliberate(LAST_WINS);
        }
    }
    Outcome::Failed(format!("{report:?} instead of {expect}"))
}

/// Whether all are type errors, and only one of them can be at the whole document.
fn all_mismatches(errors: &[Entry]) -> bool {
    !errors.is_empty() && errors.iter().all(|entry| entry.message.starts_with("expected "))
}

pub(crate) fn merge(case: &Value) -> Outcome {
    let expect = &case["expect"];
    let inputs = case["input"].as_array().unwrap();
    let mut folded = Vec::new();
    for input in inputs {
        folded_keys(input, "", &mut folded);
    }
    let result = try_merge(inputs, expect);
    match result {
        Ok(()) => Outcome::Equal,
        Err(_) if !folded.is_empty() => Outcome::Deliberate(CASE),
        Err(why) => Outcome::Failed(why),
    }
}

fn try_merge(inputs: &[Value], expect: &Value) -> Result<(), String> {
    for (i, input) in inputs.iter().enumerate() {
        let valid = ignition::parse_value(input).1.errors.is_empty();
        if valid != expect["inputs_valid"][i].as_bool().unwrap() {
            return Err(format!("input {i}: valid is {valid}"));
        }
    }
    let read: Vec<Config> =
        inputs.iter().map(ignition::read_value).collect::<Result<_, _>>().map_err(|error| format!("{error:?}"))?;
    let merged = read[1..].iter().fold(read[0].clone(), |parent, child| ignition::merge(&parent, child));
    // The stack of all must come to the same as one merge after the other.
    let mut layers = ignition::Layers::new(read[0].clone(), ignition::ContentsRule::ByField);
    for child in &read[1..] {
        layers.lay(child.clone());
    }
    if layers.finish() != merged {
        return Err("the stack differs from single merges".to_owned());
    }
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

pub(crate) fn datafile(case: &Value) -> Outcome {
    let (input, expect) = (&case["input"], &case["expect"]);
    let field = |name: &str| input.get(name).and_then(Value::as_str);
    let found = contents::decode(field("source"), field("compression"), 1 << 20);
    match (&found, expect["ok"].as_bool().unwrap()) {
        (Err(_), false) => Outcome::Equal,
        (Ok(bytes), true) => {
            let sum = sha2::Sha256::digest(bytes).iter().fold(String::new(), |sum, byte| sum + &format!("{byte:02x}"));
            if bytes.len() as u64 == expect["size"].as_u64().unwrap() && expect["sha256"] == sum {
                Outcome::Equal
            } else {
                Outcome::Failed(format!("{} bytes, {sum}", bytes.len()))
            }
        }
        _ => Outcome::Failed(format!("{:?} instead of {expect}", found.map(|bytes| bytes.len()))),
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

/// Pointers of keys that are a field's name in other letter case.
fn folded_keys(value: &Value, at: &str, found: &mut Vec<String>) {
    const FIELDS: [&str; 6] = ["path", "mode", "version", "contents", "source", "name"];
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let here = format!("{at}/{key}");
                // U+017F folds to s.
                let folded = key.replace('\u{17f}', "s").to_ascii_lowercase();
                if folded != *key && FIELDS.contains(&folded.as_str()) {
                    found.push(here.clone());
                }
                folded_keys(value, &here, found);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                folded_keys(item, &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}

/// Whether a key of the text is not in the value because it was given twice: the text has more keys than the value.
fn has_repeated_key(raw: &str, value: &Value) -> bool {
    fn keys(value: &Value) -> usize {
        match value {
            Value::Object(fields) => fields.len() + fields.values().map(keys).sum::<usize>(),
            Value::Array(items) => items.iter().map(keys).sum(),
            _ => 0,
        }
    }
    // Good for these cases, whose strings hold no `":`.
    raw.matches("\":").count() > keys(value)
}
