//! SSH keys: nothing panics, and what is taken is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcx::render::ignition::ssh_key;

fuzz_target!(|line: &str| {
    if ssh_key::check(line).is_ok() {
        assert!(!line.contains(['\n', '\r', '\0']));
    }
});
