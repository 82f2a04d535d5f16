use super::lines::applied;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn content(bytes: &[u8]) -> FileItem {
    FileItem { content: Content::of(bytes), mode: 0o644, user: Owner::Id(0), group: Owner::Id(0) }
}

fn with_file(path: &str, item: FileItem) -> Items {
    Items { files: BTreeMap::from([(path.to_owned(), item)]), ..Items::default() }
}

fn with_unit(item: UnitItem) -> Items {
    Items { units: BTreeMap::from([("a.service".to_owned(), item)]), ..Items::default() }
}

fn keyed(keys: &[&str]) -> Items {
    Items { keys: Some(keys.iter().map(|k| (*k).to_owned()).collect()), ..Items::default() }
}

#[test]
fn a_file_is_shown_with_its_names_its_fields_and_its_lines() {
    let old = with_file("/etc/x", content(b"a\nb\n"));
    let mut item = content(b"a\nc");
    item.mode = 0o600;
    item.user = Owner::Name("chrony".to_owned());
    assert_eq!(
        diff(&old, &with_file("/etc/x", item)).to_string(),
        "file /etc/x changed: mode 0644 -> 0600, user 0 -> chrony\n--- a/etc/x\n+++ b/etc/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\
         \\ No newline at end of file\n"
    );
}

#[test]
fn a_file_of_one_side_is_all_added_or_all_removed() {
    let (some, none) = (with_file("/etc/x", content(b"a\n")), Items::default());
    assert_eq!(
        diff(&none, &some).to_string(),
        "file /etc/x added: mode 0644, user 0, group 0\n--- /dev/null\n+++ b/etc/x\n@@ -0,0 +1 @@\n+a\n"
    );
    assert_eq!(
        diff(&some, &none).to_string(),
        "file /etc/x removed: mode 0644, user 0, group 0\n--- a/etc/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    );
    let empty = with_file("/etc/x", content(b""));
    assert_eq!(diff(&none, &empty).to_string(), "file /etc/x added: mode 0644, user 0, group 0, empty\n");
}

#[test]
fn only_a_mode_that_differs_shows_no_lines() {
    let mut item = content(b"a\n");
    item.mode = 0o4755;
    let found = diff(&with_file("/etc/x", content(b"a\n")), &with_file("/etc/x", item));
    assert_eq!(found.to_string(), "file /etc/x changed: mode 0644 -> 4755\n");
    assert_eq!(found.stat(), "file /etc/x  changed  +0 -0    mode\n1 item, +0 -0\n");
}

#[test]
fn what_is_no_text_is_named_by_size_and_digest() {
    for (old, new) in [(&b"a\0b"[..], &b"a\0c"[..]), (b"text\n", b"\xff\xfe"), (b"\xff", b"text\n")] {
        let found = diff(&with_file("/etc/x", content(old)), &with_file("/etc/x", content(new)));
        let expected = format!(
            "file /etc/x changed\nbinary a/etc/x: {} bytes, sha256 {}\nbinary b/etc/x: {} bytes, sha256 {}\n",
            old.len(),
            Blob::of(old).sha256,
            new.len(),
            Blob::of(new).sha256
        );
        assert_eq!(found.to_string(), expected);
        assert!(found.stat().contains(&format!("binary {} -> {} bytes", old.len(), new.len())), "{}", found.stat());
    }
}

#[test]
fn a_unit_is_shown_with_enablement_mask_body_and_drop_ins() {
    let dropin = |text: &str| BTreeMap::from([("10-x.conf".to_owned(), text.to_owned())]);
    let old = UnitItem { enabled: Some(true), dropins: dropin("[Service]\nNice=1\n"), ..UnitItem::default() };
    let new = UnitItem {
        enabled: Some(false),
        mask: Some(false),
        contents: Some("[Unit]\n".to_owned()),
        dropins: dropin("[Service]\nNice=2\n"),
    };
    assert_eq!(
        diff(&with_unit(old), &with_unit(new)).to_string(),
        "unit a.service changed: enabled true -> false, mask not set -> false\n\
         --- /dev/null\n+++ b/etc/systemd/system/a.service\n@@ -0,0 +1 @@\n+[Unit]\n\
         --- a/etc/systemd/system/a.service.d/10-x.conf\n+++ b/etc/systemd/system/a.service.d/10-x.conf\n\
         @@ -1,2 +1,2 @@\n [Service]\n-Nice=1\n+Nice=2\n"
    );
}

#[test]
fn keys_are_compared_as_a_set_and_shown_whole() {
    assert_eq!(
        diff(&keyed(&["ssh-ed25519 B b", "ssh-ed25519 A a"]), &keyed(&["ssh-ed25519 A a", "ssh-ed25519 C c"]))
            .to_string(),
        "keys of boot changed\n--- a/keys of boot\n+++ b/keys of boot\n@@ -1,2 +1,2 @@\n ssh-ed25519 A a\n\
         -ssh-ed25519 B b\n+ssh-ed25519 C c\n"
    );
    assert!(diff(&keyed(&["B", "A"]), &keyed(&["A", "B"])).is_empty());
}

#[test]
fn items_are_in_one_order_and_the_totals_are_those_of_all() {
    let mut old = with_file("/etc/b", content(b"1\n2\n"));
    old.files.insert("/etc/a".to_owned(), content(b"1\n"));
    let mut new = keyed(&["K"]);
    new.units.insert("z.service".to_owned(), UnitItem { enabled: Some(true), ..UnitItem::default() });
    new.files.insert("/etc/c".to_owned(), content(b"x\n"));
    assert_eq!(
        diff(&old, &new).stat(),
        "file /etc/a     removed  +0 -1\n\
         file /etc/b     removed  +0 -2\n\
         file /etc/c     added    +1 -0\n\
         unit z.service  added    +0 -0\n\
         keys of boot    added    +1 -0\n\
         5 items, +2 -3\n"
    );
    assert_eq!(diff(&old, &old).stat(), "");
}

#[test]
fn the_structure_goes_through_json() {
    let found = diff(&with_file("/etc/x", content(b"a\n")), &with_file("/etc/x", content(b"b")));
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["items"][0]["texts"][0]["hunks"][0]["lines"][1], serde_json::json!({"sign": "+", "text": "b"}));
    assert_eq!(serde_json::from_value::<Diff>(json).unwrap(), found);
}

/// Text, or bytes that are none.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => "[ab\n]{0,12}".prop_map(String::into_bytes), 1 => proptest::collection::vec(any::<u8>(), 0..4)]
}

fn any_file() -> impl Strategy<Value = FileItem> {
    (any_bytes(), prop_oneof![Just(0o644), Just(0o600)], 0..3_u32).prop_map(|(bytes, mode, owner)| FileItem {
        content: Content::of(&bytes),
        mode,
        user: if owner == 2 { Owner::Name("chrony".to_owned()) } else { Owner::Id(owner) },
        group: Owner::Id(0),
    })
}

fn any_unit() -> impl Strategy<Value = UnitItem> {
    let text = || "[ab\n]{1,6}";
    (
        proptest::option::of(text()),
        proptest::collection::btree_map("[12]0-x\\.conf", text(), 0..3),
        any::<Option<bool>>(),
        any::<Option<bool>>(),
    )
        .prop_map(|(contents, dropins, enabled, mask)| UnitItem { contents, dropins, enabled, mask })
}

fn any_items() -> impl Strategy<Value = Items> {
    (
        proptest::collection::btree_map("/etc/[ab]", any_file(), 0..3),
        proptest::collection::btree_map("[ab]\\.service", any_unit(), 0..3),
        proptest::option::of(proptest::collection::vec("[AB]", 1..3)),
    )
        .prop_map(|(files, units, keys)| Items { files, units, keys })
}

/// All texts of a config, by the path that a diff gives them.
fn texts(items: &Items) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for (path, file) in &items.files {
        all.insert(path.clone(), file.content.decode().unwrap());
    }
    for (name, unit) in &items.units {
        if let Some(text) = &unit.contents {
            all.insert(format!("/etc/systemd/system/{name}"), text.clone().into_bytes());
        }
        for (dropin, text) in &unit.dropins {
            all.insert(format!("/etc/systemd/system/{name}.d/{dropin}"), text.clone().into_bytes());
        }
    }
    if let Some(keys) = &items.keys {
        let sorted: BTreeSet<&String> = keys.iter().collect();
        let text = sorted.into_iter().fold(String::new(), |text, key| text + key + "\n");
        all.insert("keys of boot".to_owned(), text.into_bytes());
    }
    all
}

proptest! {
    #[test]
    fn a_diff_of_a_config_with_itself_is_empty(items in any_items()) {
        prop_assert!(diff(&items, &items.clone()).is_empty());
    }

    #[test]
    fn it_names_exactly_what_the_change_set_names(old in any_items(), new in any_items()) {
        let (found, change) = (diff(&old, &new), ChangeSet::between(&old, &new));
        let named: BTreeMap<String, Difference> =
            found.items.iter().map(|item| (item.item.clone(), item.difference)).collect();
        prop_assert_eq!(named, change.items().map(|(item, kind)| (item.to_string(), kind)).collect());
        prop_assert_eq!(found.to_string().is_empty(), change.is_empty());
        // Nothing is named without saying what of it differs.
        for item in &found.items {
            let says = !item.fields.is_empty() || !item.texts.is_empty();
            prop_assert!(says || item.difference != Difference::Changed, "{:?}", item);
        }
    }

    #[test]
    fn applied_to_the_old_config_it_gives_the_texts_of_the_new_one(old in any_items(), new in any_items()) {
        let (mut applied_texts, expected) = (texts(&old), texts(&new));
        for text in diff(&old, &new).items.iter().flat_map(|item| &item.texts) {
            let was = applied_texts.remove(&text.path);
            prop_assert_eq!(was.as_deref().map(Blob::of), text.old.clone());
            let Some(blob) = &text.new else { continue };
            let is = if text.binary {
                // It shows no bytes, but says which they are.
                expected[&text.path].clone()
            } else {
                let was = String::from_utf8(was.unwrap_or_default()).unwrap();
                applied(&was, &text.hunks).unwrap().into_bytes()
            };
            prop_assert_eq!(&Blob::of(&is), blob);
            applied_texts.insert(text.path.clone(), is);
        }
        prop_assert_eq!(applied_texts, expected);
    }
}
