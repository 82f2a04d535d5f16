//! Policies: nothing panics, and every finding is one line that names its object.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcx::api::MachineConfiguration;
use mcx::change::policy::{EffectivePolicy, findings};

fuzz_target!(|text: &[u8]| {
    let Ok(cluster) = serde_json::from_slice::<MachineConfiguration>(text) else { return };
    for finding in findings(&cluster) {
        assert!(!finding.object.is_empty());
        assert!(!finding.message.contains('\n'));
    }
    let policy = EffectivePolicy::from_spec(&cluster);
    for file in &policy.files {
        let _ = policy.file_entry(&file.path);
    }
    for unit in &policy.units {
        let _ = policy.unit_entry(&unit.name);
    }
    let _ = EffectivePolicy::from_status(&cluster);
});
