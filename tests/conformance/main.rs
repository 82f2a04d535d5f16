//! Cases with recorded answers of the reference implementations (`tests/data/conformance/README.md`).
//!
//! Each case ends in one of three ways: equal; refused, since it uses what mcx does not apply; different on purpose, by one of
//! [`rules`]. Anything else fails. None of the three is given by a case's name: a refusal must name a part that the case
//! has, and a rule says what must hold instead. Where a case is refused, what is left of it without the refused parts must
//! still come out as the reference has it, and the Ignition layer must agree about all of it.
//! `MCX_CONFORMANCE=DIR` reads another folder of cases. A case without an answer must do without a panic; what is rendered of
//! it is compared with what the Ignition layer makes of the same sources by the reference's rules.

// A case that is not as described must stop the test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod diff;
mod explicit;
mod ignition;
mod ordered;
mod reader;
mod refusal;
mod render;
mod rules;
mod translate;
mod yaml;

use ordered::Ordered;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A case: its fields, and the same as they are written.
struct Case {
    fields: Value,
    text: Ordered,
}

/// What was found of a case that did not fail.
#[derive(Debug, Default, Clone)]
struct Verdict {
    /// Parts that were refused because mcx does not apply them.
    refused: BTreeSet<&'static str>,
    /// Rules by which it differs.
    rules: BTreeSet<&'static str>,
}

type Judged = Result<Verdict, String>;
type Judge = fn(&Case) -> Judged;

/// The files that have a judge here; others are listed as not handled.
const JUDGES: [(&str, Judge); 10] = [
    ("validate.json", ignition::validate),
    ("validate_random.jsonl", ignition::validate),
    ("merge.json", ignition::merge),
    ("merge_random.jsonl", ignition::merge),
    ("datafile.json", ignition::datafile),
    ("yaml.json", yaml::documents),
    ("render.json", render::render),
    ("render_random.jsonl", render::render),
    ("mcvalidate.json", render::source),
    ("diff.json", diff::diff),
];

impl Case {
    /// What the reference says; none when it was not asked. Then only what must hold of every input is looked at.
    fn answer(&self) -> Option<&Value> {
        // Cases of YAML have theirs beside the text.
        self.fields.get("expect").or_else(|| self.fields.get("docs"))
    }
}

impl Verdict {
    fn rule(rule: &'static str) -> Self {
        Self { rules: BTreeSet::from([rule]), ..Self::default() }
    }

    fn refused(part: &'static str) -> Self {
        Self { refused: BTreeSet::from([part]), ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.refused.extend(other.refused);
        self.rules.extend(other.rules);
    }
}

/// How the cases of a file ended.
#[derive(Default)]
struct Counts {
    equal: usize,
    unanswered: usize,
    refused: usize,
    different: usize,
    /// Of refused cases by part, of different ones by rule, and of rules that hold in the rest of refused ones.
    why: BTreeMap<String, usize>,
}

impl Counts {
    fn count(&mut self, verdict: &Verdict) {
        let (class, prefix) = match (verdict.refused.is_empty(), verdict.rules.is_empty()) {
            (true, true) => (&mut self.equal, ""),
            (true, false) => (&mut self.different, "different: "),
            (false, _) => (&mut self.refused, "in the rest of a refused case: "),
        };
        *class += 1;
        let parts = verdict.refused.iter().map(|part| format!("refused: {part}"));
        for why in parts.chain(verdict.rules.iter().map(|rule| format!("{prefix}{rule}"))) {
            *self.why.entry(why).or_default() += 1;
        }
    }
}

#[test]
fn every_case_is_equal_refused_or_different_by_a_rule() {
    let folder = std::env::var_os("MCX_CONFORMANCE")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conformance")), PathBuf::from);
    let given = std::env::var_os("MCX_CONFORMANCE").is_some();
    let (mut failures, mut files) = (Vec::new(), 0);
    for (file, judge) in JUDGES {
        if given && !folder.join(file).exists() {
            println!("{file}: not there");
            continue;
        }
        files += 1;
        let cases = cases(&folder.join(file));
        assert!(!cases.is_empty(), "{file} has no cases");
        let (mut counts, mut failed) = (Counts::default(), 0);
        for case in &cases {
            match judge(case) {
                Ok(_) if case.answer().is_none() => counts.unanswered += 1,
                Ok(verdict) => counts.count(&verdict),
                Err(why) => {
                    failed += 1;
                    failures.push(format!("{file}: {}: {why}", case.fields["name"].as_str().unwrap()));
                }
            }
        }
        let Counts { equal, unanswered, refused, different, why } = counts;
        print!("{file}: {} cases: {equal} equal, {refused} refused as unsupported, ", cases.len());
        print!("{different} different on purpose, {failed} failed");
        println!("{}", if unanswered > 0 { format!(", {unanswered} without an answer") } else { String::new() });
        for (why, count) in why {
            println!("    {count} × {why}");
        }
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_cases = [".json", ".jsonl"].iter().any(|end| name.ends_with(end));
        if is_cases && !JUDGES.iter().any(|(file, _)| *file == name) {
            println!("{name}: not handled");
        }
    }
    assert!(files > 0, "{} has no cases", folder.display());
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_rule_stands_in_the_decision_with_its_reason() {
    let decision = include_str!("../../docs/decisions/0010-where-mcx-differs-from-the-reference.md");
    for rule in rules::ALL {
        assert!(decision.contains(&format!("| {rule} |")), "{rule}");
    }
}

fn cases(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = |text: &str| Ordered::parse(text).unwrap_or_else(|| panic!("{}: no JSON", path.display()));
    let texts = if path.extension().is_some_and(|end| end == "jsonl") {
        text.lines().map(read).collect()
    } else {
        read(&text).items().to_vec()
    };
    texts.into_iter().map(|text| Case { fields: text.value(), text }).collect()
}
