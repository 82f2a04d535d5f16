use super::*;
use proptest::prelude::*;
use serde_json::json;

fn one(text: &str) -> Value {
    match documents(text).as_deref() {
        Ok([document]) => document.value.clone(),
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn first() {
    assert_eq!(one("a: 0644\n"), json!({"a": 420}));
}
