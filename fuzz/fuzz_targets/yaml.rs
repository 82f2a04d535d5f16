//! YAML as kubectl reads it: nothing panics, every value has a place, and what is written reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcx::yaml;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let Ok(documents) = yaml::documents(text) else { return };
    for document in documents {
        assert!(document.locate("").is_some());
        if let Value::Object(map) = &document.value {
            for key in map.keys() {
                let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                assert!(document.locate(&pointer).is_some());
            }
            let written = yaml::to_string(&document.value);
            // Aliases may make more of a text than is read again.
            if written.len() > 1 << 20 {
                continue;
            }
            let back = yaml::documents(&written).expect("what is written can be read");
            assert_eq!(back.len(), 1);
            assert_eq!(back[0].value, document.value);
        }
    }
});
