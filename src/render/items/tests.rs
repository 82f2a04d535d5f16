use super::*;

#[test]
fn the_hash_is_fixed() {
    // A change of this value renames every rendered config in every cluster: each node would be updated once.
    assert_eq!(Items::default().hash(), Items::default().hash());
}
