//! Ignition JSON: nothing panics; there is a config exactly when there is no error; what was read reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcx::render::ignition;
use mcx::render::items::Items;

fuzz_target!(|text: &[u8]| {
    let (config, report) = ignition::parse(text);
    assert_eq!(config.is_some(), report.errors.is_empty());
    let Some(config) = config else { return };
    assert_eq!(ignition::read_value(&config.0).as_ref(), Ok(&config));
    ignition::validate(&ignition::merge(&config, &config));
    // Whatever the specification takes and mcx does not is an error and no panic. What is taken keeps its meaning.
    if let Ok(items) = Items::from_config(&config.0) {
        let back = Items::from_config(&items.to_config()).expect("what is written can be read");
        assert_eq!(back.hash(), items.hash());
    }
});
