use super::*;

fn items() -> Items {
    let file = |bytes: &[u8], mode, user| FileItem { content: Content::of(bytes), mode, user, group: Owner::Id(0) };
    Items {
        files: BTreeMap::from([
            ("/etc/a".to_owned(), file(b"a\n", 0o644, Owner::Id(0))),
            ("/etc/b".to_owned(), file(b"", 0o4600, Owner::Name("adm".to_owned()))),
        ]),
        units: BTreeMap::from([(
            "a.service".to_owned(),
            UnitItem {
                contents: Some("[Unit]\n".to_owned()),
                dropins: BTreeMap::from([("x.conf".to_owned(), "[Service]\n".to_owned())]),
                enabled: Some(true),
                mask: Some(false),
            },
        )]),
        keys: Some(vec!["ssh-ed25519 A".to_owned(), "ssh-ed25519 B".to_owned()]),
    }
}

#[test]
fn the_hash_never_changes_for_the_same_items() {
    // Another value renames every rendered config of every cluster: each node would be handed a new one.
    assert_eq!(Items::default().hash(), "3578123584629e3b8a73246213f37a47");
    assert_eq!(items().hash(), "eb4708717d4b162415720ef7356f59ba");
}

#[test]
fn no_two_items_share_a_canonical_form_by_shifting_bytes() {
    let unit = |name: &str, contents: &str, dropin: (&str, &str)| Items {
        units: BTreeMap::from([(
            name.to_owned(),
            UnitItem {
                contents: Some(contents.to_owned()),
                dropins: BTreeMap::from([(dropin.0.to_owned(), dropin.1.to_owned())]),
                ..UnitItem::default()
            },
        )]),
        ..Items::default()
    };
    let one = unit("a.service", "ab", ("x.conf", "c"));
    for other in [
        unit("a.service", "a", ("bx.conf", "c")),
        unit("a.service", "abx.conf", ("c", "")),
        unit("a.servicea", "b", ("x.conf", "c")),
    ] {
        assert_ne!(one.hash(), other.hash(), "{other:?}");
    }
    let keys = |keys: &[&str]| Items { keys: Some(keys.iter().map(|k| (*k).to_owned()).collect()), ..Items::default() };
    assert_ne!(keys(&["ab", "c"]).hash(), keys(&["a", "bc"]).hash());
}

#[test]
fn content_is_equal_by_bytes_and_never_printed() {
    let plain = Content::new(Some("data:,secret"), None).unwrap();
    assert_eq!(plain, Content::of(b"secret"));
    assert_ne!(plain, Content::of(b"Secret"));
    assert_eq!(plain.decode().unwrap(), b"secret");
    assert_eq!((plain.size(), plain.encoded_size()), (6, 12));
    let printed = format!("{plain:?} {:?}", Content::of(b"secret"));
    assert!(!printed.contains("secret") && !printed.contains("c2VjcmV0"), "{printed}");
    let empty = Content::new(None, None).unwrap();
    assert_eq!(empty, Content::of(b""));
    assert_eq!(empty.decode().unwrap(), b"");
}

#[test]
fn items_are_written_and_read_back() {
    assert_eq!(Items::from_config(items().to_config()).map(|i| i.hash()), Ok(items().hash()));
    assert_eq!(Items::from_config(Items::default().to_config()), Ok(Items::default()));
}
