//! The example of each rule does what the reference says of it: given to the functions of `mcx validate`, it breaks that rule.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use base64::Engine as _;
use mcx::render::load::{self, Input};
use mcx::render::rule;
use mcx::render::rule::examples::{self, Example};
use mcx::review::{self, Review};
use std::collections::BTreeSet;
use std::io::Write as _;

fn review(bytes: Vec<u8>) -> Review {
    review::review(&load::load(vec![Input { name: "-".to_owned(), bytes }]))
}

fn rules(review: &Review) -> BTreeSet<&'static str> {
    review.findings.iter().map(|f| f.rule).collect()
}

/// A source with one file of these contents.
fn file(contents: &str) -> Vec<u8> {
    format!(
        "apiVersion: machineconfiguration.alauda.io/v1alpha1\nkind: MachineConfig\n\
         metadata: {{name: 99-x, labels: {{machineconfiguration.alauda.io/role: worker}}}}\n\
         spec: {{config: {{ignition: {{version: 3.4.0}}, storage: {{files: [{{path: /etc/x, contents: {{{contents}}}}}]}}}}}}\n"
    )
    .into_bytes()
}

/// The inputs that are only described.
fn described(id: &str) -> Vec<u8> {
    let plain = |bytes: usize| file(&format!("source: 'data:,{}'", "x".repeat(bytes)));
    match id {
        "input-size" => vec![b' '; 33 << 20],
        "input-encoding" => b"kind: MachineConfig # \xe9\n".to_vec(),
        "contents-size" => {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            packed.write_all(&vec![0; 65 << 20]).unwrap();
            let text = base64::engine::general_purpose::STANDARD.encode(packed.finish().unwrap());
            file(&format!("compression: gzip, source: 'data:;base64,{text}'"))
        }
        "rendered-size" => plain(2 << 20),
        "source-size" => plain(300 << 10),
        "rendered-near-limit" => plain(1_300_000),
        _ => panic!("{id} is only described, and there is no input for it here"),
    }
}

/// What else the example of a rule cannot help to break.
fn beside(id: &str) -> &'static [&'static str] {
    match id {
        // A selector that leaves out the sources of worker finds none in a cluster that has nothing else.
        "pool-worker" => &["no-sources"],
        // What is too large here is one source.
        "rendered-size" | "rendered-near-limit" => &["source-size"],
        // The text of the first source is also hidden.
        "line-ends-only" => &["item-shadowed"],
        _ => &[],
    }
}

#[test]
fn the_example_of_each_rule_breaks_it_and_no_other() {
    for rule in rule::RULES {
        let bytes = match examples::of(rule.id).unwrap() {
            Example::Input(text) => text.as_bytes().to_vec(),
            // What the specification warns of and mcx does not say itself. Nothing is, today.
            Example::Words(_) if rule.id == "ignition-hint" => continue,
            Example::Words(_) => described(rule.id),
        };
        let found = review(bytes);
        let expected: BTreeSet<&str> = beside(rule.id).iter().copied().chain([rule.id]).collect();
        assert_eq!(rules(&found), expected, "{}: {:#?}", rule.id, found.findings);
        for finding in &found.findings {
            assert_eq!(finding.severity, rule::by_id(finding.rule).unwrap().severity);
        }
    }
}
