//! Resources: something to fetch, or given in place as a `data:` URL.

use super::{Object, each, object, plain, text};
use crate::render::ignition::trail::Trail;
use crate::render::ignition::{Report, url};

/// Checks a resource that may be without a source.
pub(super) fn check(resource: &Object, here: &Trail<'_>, report: &mut Report) {
    let source = text(resource, "source");
    if let Some(source) = source.filter(|source| !source.is_empty())
        && let Err(error) = url::check(source)
    {
        report.error(here.below(&["source"]), error.to_string());
    }
    if !matches!(text(resource, "compression"), None | Some("" | "gzip")) {
        report.error(here.below(&["compression"]), "compression must be gzip or absent");
    }
    if let Some(hash) = text(object(resource, "verification"), "hash") {
        let pointer = || here.below(&["verification", "hash"]);
        if source.is_none() {
            report.error(pointer(), "a hash needs a source that it is of");
        }
        if let Err(problem) = check_hash(hash) {
            report.error(pointer(), problem);
        }
    }
    check_headers(resource, source.unwrap_or_default(), here, report);
}

/// Checks a resource that is nothing without a source.
pub(super) fn check_required(resource: &Object, here: &Trail<'_>, report: &mut Report) {
    check(resource, here, report);
    match text(resource, "source") {
        None | Some("") => report.error(here.pointer(), "source is required"),
        Some(source) => {
            // The reference reports it here and at the source itself.
            if let Err(error) = url::check(source) {
                report.error(here.pointer(), format!("source: {error}"));
            }
        }
    }
}

/// A hash is named and has the right length; nobody checks the digits before the fetch.
fn check_hash(hash: &str) -> Result<(), &'static str> {
    let Some((function, sum)) = hash.split_once('-') else {
        return Err("a hash is written sha512-… or sha256-…");
    };
    let digits = match function {
        "sha512" => 128,
        "sha256" => 64,
        _ => return Err("the hash function must be sha512 or sha256"),
    };
    if sum.len() == digits { Ok(()) } else { Err("the hash has the wrong length") }
}

fn check_headers(resource: &Object, source: &str, here: &Trail<'_>, report: &mut Report) {
    let mut any = false;
    for (i, header) in each(resource, "httpHeaders") {
        any = true;
        let at_headers = Trail::Field(here, "httpHeaders");
        let at = Trail::Item(&at_headers, i);
        if plain(header, "name").is_empty() {
            report.error(at.below(&["name"]), "the name of an HTTP header must not be empty");
        }
        if text(header, "value") == Some("") {
            report.error(at.below(&["value"]), "the value of an HTTP header must not be empty");
        }
    }
    if !any {
        return;
    }
    let problem = match url::scheme(source).as_deref() {
        _ if source.is_empty() => "HTTP headers need a source",
        Err(_) => "HTTP headers need a source that can be parsed",
        Ok("http" | "https") => return,
        Ok(_) => "HTTP headers need a source with http or https",
    };
    report.error(here.below(&["httpHeaders"]), problem);
}
