//! `data:` URLs: nothing panics, and no more comes back than is asked for, packed or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcx::render::ignition::contents;

/// In bytes: small, so that inputs reach it.
const LIMIT: u64 = 1 << 10;

fuzz_target!(|text: &str| {
    for compression in [None, Some("gzip")] {
        // Most inputs are not even `data:`.
        for source in [text, &format!("data:,{text}"), &format!("data:;base64,{text}")] {
            if let Ok(bytes) = contents::decode(Some(source), compression, LIMIT) {
                assert!(bytes.len() as u64 <= LIMIT);
            }
        }
    }
});
