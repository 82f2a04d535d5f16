//! The YAML reader against what kubectl's reads.

use crate::Outcome;
use mcx::yaml;
use serde_json::Value;

/// YAML 1.2 took it over from JSON; what it means is beyond doubt.
const SLASH: &str = "the escape \\/ is read";
/// YAML 1.1 ends a line there, YAML 1.2 does not: the text would mean different things to different readers.
const LINE_BREAKS: &str = "raw U+0085, U+2028 and U+2029 are refused";

pub(crate) fn documents(case: &Value) -> Outcome {
    let text = case["yaml"].as_str().unwrap();
    let expected = case["docs"].as_array().unwrap();
    let error = expected.last().and_then(|last| last.get("error"));
    let found = yaml::documents(text);
    match (error, &found) {
        (Some(_), Err(error)) => {
            let lines = text.lines().count().max(1) + 1;
            if error.line == 0 || error.column == 0 || error.line > lines || error.message.contains('\n') {
                return Outcome::Failed(format!("the error has no place: {error}"));
            }
            Outcome::Equal
        }
        (None, Ok(documents)) => {
            let found: Vec<&Value> = documents.iter().map(|document| &document.value).collect();
            let expected: Vec<&Value> = expected.iter().filter(|value| !value.is_null()).collect();
            let repeated = documents.iter().any(|document| !document.repeated().is_empty());
            if found != expected {
                return Outcome::Failed(format!("{found:?} instead of {expected:?}"));
            }
            if case.get("strictError").is_some() != repeated {
                return Outcome::Failed(format!("repeated keys: {repeated}"));
            }
            Outcome::Equal
        }
        (Some(_), Ok(documents)) if text.contains("\\/") && documents.len() == 1 => Outcome::Deliberate(SLASH),
        (None, Err(error)) if text.contains(['\u{85}', '\u{2028}', '\u{2029}']) && error.message.contains("U+0085") => {
            Outcome::Deliberate(LINE_BREAKS)
        }
        _ => Outcome::Failed(format!("{found:?} instead of {}", case["docs"])),
    }
}
