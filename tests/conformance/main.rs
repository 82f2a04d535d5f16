//! Cases with recorded answers of the reference implementations (`tests/data/conformance/README.md`).
//!
//! Each case ends in one of three ways: equal; different on purpose, by a rule that is written here with its reason and says
//! what must hold instead; or failed. `MCX_CONFORMANCE=DIR` reads another folder of cases.

// A case that is not as described must stop the test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod ignition;
mod yaml;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How a case ended.
enum Outcome {
    Equal,
    /// Different on purpose; the rule.
    Deliberate(&'static str),
    Failed(String),
}

type Judge = fn(&Value) -> Outcome;

/// The files that have a judge here; others are listed as not handled.
const JUDGES: [(&str, Judge); 6] = [
    ("validate.json", ignition::validate),
    ("validate_random.jsonl", ignition::validate),
    ("merge.json", ignition::merge),
    ("merge_random.jsonl", ignition::merge),
    ("datafile.json", ignition::datafile),
    ("yaml.json", yaml::documents),
];

#[test]
fn every_case_ends_as_the_reference_says_or_differs_by_a_rule() {
    let folder = std::env::var_os("MCX_CONFORMANCE")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conformance")), PathBuf::from);
    let mut failures = Vec::new();
    for (file, judge) in JUDGES {
        let cases = cases(&folder.join(file));
        assert!(!cases.is_empty(), "{file} has no cases");
        let (mut equal, mut failed, mut rules) = (0, 0, BTreeMap::<_, usize>::new());
        for case in &cases {
            match judge(case) {
                Outcome::Equal => equal += 1,
                Outcome::Deliberate(rule) => *rules.entry(rule).or_default() += 1,
                Outcome::Failed(why) => {
                    failed += 1;
                    failures.push(format!("{file}: {}: {why}", case["name"].as_str().unwrap()));
                }
            }
        }
        let deliberate: usize = rules.values().sum();
        println!("{file}: {} cases, {equal} equal, {deliberate} different on purpose, {failed} failed", cases.len());
        for (rule, count) in rules {
            println!("    {count} × {rule}");
        }
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_cases = [".json", ".jsonl"].iter().any(|end| name.ends_with(end));
        if is_cases && !JUDGES.iter().any(|(file, _)| *file == name) {
            println!("{name}: not handled");
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

fn cases(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|end| end == "jsonl") {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    } else {
        serde_json::from_str(&text).unwrap()
    }
}
