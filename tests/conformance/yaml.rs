//! The YAML reader against what kubectl's reads.

use crate::rules::{LINE_BREAKS, SLASH_ESCAPE};
use crate::{Case, Judged, Verdict};
use mcx::yaml;
use serde_json::Value;

pub(crate) fn documents(case: &Case) -> Judged {
    let text = case.fields["yaml"].as_str().unwrap();
    let found = yaml::documents(text);
    let Some(answer) = case.answer() else { return Ok(Verdict::default()) };
    let expected = answer.as_array().unwrap();
    let error = expected.last().and_then(|last| last.get("error"));
    match (error, &found) {
        (Some(_), Err(error)) => {
            let lines = text.lines().count().max(1) + 1;
            if error.line == 0 || error.column == 0 || error.line > lines || error.message.contains('\n') {
                return Err(format!("the error has no place: {error}"));
            }
            Ok(Verdict::default())
        }
        (None, Ok(documents)) => {
            let found: Vec<&Value> = documents.iter().map(|document| &document.value).collect();
            let expected: Vec<&Value> = expected.iter().filter(|value| !value.is_null()).collect();
            let repeated = documents.iter().any(|document| !document.repeated().is_empty());
            if found != expected {
                return Err(format!("{found:?} instead of {expected:?}"));
            }
            if case.fields.get("strictError").is_some() != repeated {
                return Err(format!("repeated keys: {repeated}"));
            }
            Ok(Verdict::default())
        }
        (Some(_), Ok(documents)) if text.contains("\\/") && documents.len() == 1 => Ok(Verdict::rule(SLASH_ESCAPE)),
        (None, Err(error)) if text.contains(['\u{85}', '\u{2028}', '\u{2029}']) && error.message.contains("U+0085") => {
            Ok(Verdict::rule(LINE_BREAKS))
        }
        _ => Err(format!("{found:?} instead of {answer}")),
    }
}
