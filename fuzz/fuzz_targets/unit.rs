//! Texts of units, read by the specification's lexer and as systemd reads them: nothing panics, lines are of the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcx::render::ignition::unit;
use mcx::render::systemd::directive;
use mcx::render::systemd::install::Install;
use mcx::render::systemd::oddity::oddities;
use mcx::render::systemd::text::UnitText;

fuzz_target!(|text: &str| {
    let _ = unit::parse(text);
    let read = UnitText::read(text);
    for name in ["a.service", "a@.socket", "a.mount"] {
        if let Some(sections) = directive::sections(name) {
            let _ = oddities(&read, sections);
        }
    }
    let _ = Install::of([text]).has_effect();
});
