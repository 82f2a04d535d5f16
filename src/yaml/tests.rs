use super::*;
use proptest::prelude::*;
use serde_json::json;

fn one(text: &str) -> Value {
    match documents(text).as_deref() {
        Ok([document]) => document.value.clone(),
        other => panic!("{text:?}: {other:?}"),
    }
}

fn wrong(text: &str) -> Error {
    documents(text).expect_err(&format!("{text:.60?}"))
}

#[test]
fn scalars_are_what_kubectl_reads() {
    // L-01, R-024, and what other readers get wrong.
    let cases = [
        ("0644", json!(420)),
        ("0o644", json!(420)),
        ("0O644", json!(420)),
        ("0x1A4", json!(420)),
        ("420", json!(420)),
        ("4_20", json!(420)),
        ("0b110", json!(6)),
        ("01777", json!(1023)),
        ("1777", json!(1777)),
        ("644", json!(644)),
        ("08", json!(8)),
        ("0688", json!(688)),
        ("0o689", json!("0o689")),
        ("-0644", json!(-420)),
        ("\"0644\"", json!("0644")),
        ("'0644'", json!("0644")),
        ("!!str 0644", json!("0644")),
        ("420.0", json!(420)),
        ("1e3", json!(1000)),
        ("5.", json!(5)),
        (".5", json!(0.5)),
        ("-0.0", json!(0)),
        ("1e400", json!("1e400")),
        ("9223372036854775808", json!(9_223_372_036_854_775_808_u64)),
        ("3.4", json!(3.4)),
        ("3.4.0", json!("3.4.0")),
        ("1:20", json!("1:20")),
        ("2024-01-02", json!("2024-01-02")),
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("y", json!(true)),
        ("N", json!(false)),
        ("yEs", json!("yEs")),
        ("~", json!(null)),
        ("", json!(null)),
        ("rw-r--r--", json!("rw-r--r--")),
        ("!foo bar", json!("bar")),
        ("!!int \"7\"", json!(7)),
        ("!!float 7", json!(7)),
        ("!!binary YQ==", json!("a")),
        ("!!timestamp 2024-01-02", json!("2024-01-02")),
    ];
    for (text, value) in cases {
        assert_eq!(one(&format!("mode: {text}\n")), json!({ "mode": value }), "{text}");
    }
    for text in ["!!null x", "!!bool x", "!!int 1.5", "!!timestamp x", "!!binary '*'", ".nan", "-.inf"] {
        wrong(&format!("mode: {text}\n"));
    }
}

#[test]
fn keys_become_the_strings_that_kubectl_makes_of_them() {
    for (key, name) in [
        ("yes", "true"),
        ("on", "true"),
        ("n", "false"),
        ("010", "8"),
        ("1.50", "1.5"),
        ("1e3", "1000"),
        ("1234567.5", "1.2345675e+06"),
        ("0.00001", "1e-05"),
        (".inf", ".inf"),
        ("2024-01-02", "2024-01-02"),
        ("'on'", "on"),
    ] {
        assert_eq!(one(&format!("{key}: x\n")), json!({ name: "x" }), "{key}");
    }
    for key in ["~", "? [a]\n", "? {a: 1}\n", "18446744073709551615"] {
        wrong(&format!("{key}: x\n"));
    }
}

#[test]
fn a_stream_is_cut_where_kubectl_cuts_it() {
    let values = |text: &str| {
        let found = documents(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        found.into_iter().map(|document| (document.line, document.value)).collect::<Vec<_>>()
    };
    let (a, b) = (json!({"a": 1}), json!({"b": 2}));
    let both = |second: usize| vec![(1, a.clone()), (second, b.clone())];
    assert_eq!(values("a: 1\n---\nb: 2\n"), both(3));
    assert_eq!(values("a: 1\n--- # comment\n\n# more\nb: 2"), both(5));
    assert_eq!(values("a: 1\n---\n---\nb: 2\n"), both(4));
    assert_eq!(values("a: 1\n---\n# nothing\n---\nb: 2\n"), both(5));
    assert_eq!(values("a: 1\r\n---\r\nb: 2\r\n"), both(3));
    assert_eq!(values("a: 1\n...\n---\nb: 2\n"), both(4));
    assert_eq!(values("---\na: 1\n"), [(2, a.clone())]);
    assert_eq!(values(""), []);
    assert_eq!(values("\n# nothing\n---\n~\n"), []);
    // JSON, then whatever follows.
    assert_eq!(values("{\"a\":1}\n{\"b\":2}\n"), both(2));
    assert_eq!(values("{\"a\":1}{\"b\":2}"), both(1));
    assert_eq!(values("{\"a\":1}\n---\nb: 2\n"), both(3));
    assert_eq!(values("{a: 1}\n---\n{b: 2}\n"), both(3));
    assert_eq!(values("{\n\t\"a\":\t1.0}"), [(1, a.clone())]);
    assert_eq!(values("{\"a\": 0001}"), [(1, a.clone())]);

    assert_eq!((wrong("a: 1\n--- b: 2\n").line, wrong("a: 1\n\n----\n").line), (2, 3));
    // kubectl drops what follows here without a word.
    assert_eq!(wrong("a: 1\n...\nb: 2\n").line, 3);
}

#[test]
fn merges_are_laid_over_in_the_order_of_the_text() {
    let text = "x: &x {a: 1, b: 1}\nw:\n  <<: *x\n  b: 2\nz:\n  b: 2\n  <<: [{a: 3}, *x]\n";
    assert_eq!(one(text), json!({"x": {"a": 1, "b": 1}, "w": {"a": 1, "b": 2}, "z": {"a": 3, "b": 1}}));
    assert_eq!(one("'<<': {a: 1}\n"), json!({"<<": {"a": 1}}));
    for text in ["<<: 1\n", "<<: [1]\n", "x: &x [{a: 1}]\n<<: *x\n", "a: &a [*a]\n", "a: *nowhere\n"] {
        wrong(text);
    }
}

#[test]
fn the_last_of_repeated_keys_counts_and_they_are_listed() {
    let found = documents("f:\n- mode: 1\n  mode: 2\n  \"on\": 1\n").unwrap();
    assert_eq!(found[0].value, json!({"f": [{"mode": 2, "on": 1}]}));
    assert_eq!(
        found[0].repeated(),
        [Repeated { pointer: "/f/0/mode".to_owned(), place: Place { line: 3, column: 3 } }]
    );
    // Naming a merged field is what merges are for.
    let merged = documents("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n").unwrap();
    assert_eq!(merged[0].repeated(), []);
}

#[test]
fn a_field_is_located_at_its_key_and_an_item_at_its_beginning() {
    let text = "# comment\n---\nspec:\n  config:\n    storage:\n      files:\n      - path: /a\n        mode: 0644\n      - \
                {path: /b, mode: 1}\n---\nspec: {\"a/b~c\": &x {d: 1}}\nagain: *x\nspec: {e: 1}\n";
    let found = documents(text).unwrap();
    let at = |document: usize, pointer: &str| {
        let place = found[document].locate(pointer).unwrap();
        (place.line, place.column)
    };
    assert_eq!(at(0, "/spec/config/storage/files/0/mode"), (8, 9));
    assert_eq!(at(0, "/spec/config/storage/files/1"), (9, 9));
    assert_eq!(at(0, "/spec/config/storage/files/1/mode"), (9, 20));
    assert_eq!(at(0, "/spec/config/storage/files"), (6, 7));
    // Nearest above.
    assert_eq!(at(0, "/spec/config/storage/files/1/contents/source"), (9, 9));
    assert_eq!(at(0, "/spec/config/storage/files/7"), (6, 7));
    assert_eq!(at(0, "/spec/config/systemd"), (4, 3));
    assert_eq!(at(0, ""), (3, 1));
    assert_eq!(at(0, "no pointer"), (3, 1));
    // In the second document; what an alias stands for is at the alias, and the last of repeated keys counts.
    assert_eq!(at(1, "/again/d"), (12, 1));
    assert_eq!(at(1, "/spec/e"), (13, 8));
    assert_eq!(at(1, "/spec/a~1b~0c"), (13, 1));

    let json = documents("{\"a\": {\"b\": 1}} {\"a\":\n\t{\"b\": [1,\n 2]}}").unwrap();
    let at = |document: usize, pointer: &str| {
        let place = json[document].locate(pointer).unwrap();
        (place.line, place.column)
    };
    assert_eq!((at(0, "/a"), at(0, "/a/b"), at(1, "/a")), ((1, 2), (1, 8), (1, 18)));
    assert_eq!((at(1, "/a/b"), at(1, "/a/b/1")), ((2, 3), (3, 2)));
}

#[test]
fn errors_name_line_and_column_of_the_stream() {
    for (text, line) in [
        ("a: 1\n---\nb: [\n", 3),
        ("a:\n\tb: 1\n", 2),
        ("a: b: c\n", 1),
        ("a: 1\n---\nb: *nope\n", 3),
        ("a: 1\n---\n\nb: .nan\n", 4),
        ("%YAML 1.2\n---\na: 1\n", 1),
        ("a: \"x\n", 1),
        ("{\"a\": 1,\n \"b\" 2}", 2),
        ("a: x\u{2028}b: 1\n", 1),
    ] {
        let error = wrong(text);
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(!error.message.contains('\n') && error.column > 0, "{error}");
    }
}

#[test]
fn large_and_expanding_texts_are_refused_soon() {
    let begun = std::time::Instant::now();
    let level = |n: usize| format!("a{n}: &a{n} [{}]\n", format!("*a{}, ", n - 1).repeat(10));
    let bomb =
        (1..9).map(level).fold("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, level| text + &level);
    assert!(wrong(&bomb).message.contains("aliases"), "{}", wrong(&bomb));
    // Few values, but long ones.
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(4 << 20), "*a, ".repeat(90));
    assert!(wrong(&long).message.contains("more values"), "{}", wrong(&long));
    // Each level is copied for its anchor.
    let open = (0..150).fold(String::new(), |open, n| open + &format!("&n{n} ["));
    let nested = format!("{open}{}{}", "x".repeat(4 << 20), "]".repeat(150));
    assert!(wrong(&nested).message.contains("more values"), "{}", wrong(&nested));
    assert!(wrong(&"a: 1\n".repeat(10 << 20)).message.contains("larger than 32 MiB"));
    assert!(wrong(&format!("{{\"a\": [{}]}}", "{},".repeat(600_000))).message.contains("more values"));
    for deep in ["[".repeat(100_000), "{\"a\":".repeat(100_000), "- ".repeat(100_000), "? ".repeat(100_000)] {
        wrong(&deep);
    }
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn what_is_written_reads_back_the_same_to_every_reader() {
    let value = json!({
        "yes": "yes", "0644": "0644", "1e3": "1e3", "n": null, "version": "3.4.0", "date": "2024-01-02", "time": "1:20",
        "path": "/etc/chrony.conf", "source": "data:,a%20b", "words": "two words", "colon": "a: b", "hash": "a #b",
        "unit": "[Unit]\nDescription=x\n\n[Service]\n", "no end": "a\nb", "ends": "a\n\n\n", "indented": " a\nb\n",
        "list": [[1, [2]], {"a": [], "b": {}}, "x\ny\n", 1.5, -1, 1e21, true], "": "",
    });
    let expected = r#""": ""
"0644": "0644"
"1e3": "1e3"
colon: "a: b"
date: "2024-01-02"
ends: |+
  a


hash: "a #b"
indented: " a\nb\n"
list:
- - 1
  - - 2
- a: []
  b: {}
- |
  x
  y
- 1.5
- -1
- 1.0e+21
- true
"n": null
no end: |-
  a
  b
path: /etc/chrony.conf
source: data:,a%20b
time: "1:20"
unit: |
  [Unit]
  Description=x

  [Service]
version: "3.4.0"
words: two words
"yes": "yes"
"#;
    let written = to_string(&value);
    assert_eq!(written, expected);
    assert_eq!(one(&written), value);
}

#[test]
fn what_people_keep_is_written_as_they_would_write_it() {
    let text = |text: &str| Form::Text(text.to_owned());
    let form = Form::Fields(vec![
        ("name", text("99-worker-chrony")),
        ("version", text("3.4.0")),
        ("modes", Form::Items([0, 0o4, 0o644, 0o4755].map(Form::Octal).to_vec())),
        (
            "words",
            Form::Items(["yes", "1e3", "1e-3", "2024-01-02", "1.5", "0x1f", "it's: so", "a: b", ""].map(text).to_vec()),
        ),
        ("parts", Form::Parts(["data:,", "a%20\\", " b\n"].map(str::to_owned).to_vec())),
        ("text", text("\n\n# first\n\n  two\n")),
        ("none", Form::Items(vec![])),
        ("pairs", Form::Pairs(vec![("a.b/c".to_owned(), Form::Flag(true)), ("no".to_owned(), Form::Number(7))])),
    ]);
    let expected = r#"name: 99-worker-chrony
version: 3.4.0
modes:
  - 0000
  - 0004
  - 0644
  - 04755
words:
  - 'yes'
  - '1e3'
  - '1e-3'
  - '2024-01-02'
  - '1.5'
  - '0x1f'
  - "it's: so"
  - 'a: b'
  - ''
parts: "data:,\
  a%20\\\
  \x20b\n"
text: |


  # first

    two
none: []
pairs:
  a.b/c: true
  "no": 7
"#;
    let written = to_hand_written(&form);
    assert_eq!(written, expected);
    let read = one(&written);
    assert_eq!(read["modes"], json!([0, 4, 0o644, 0o4755]));
    assert_eq!(read["words"], json!(["yes", "1e3", "1e-3", "2024-01-02", "1.5", "0x1f", "it's: so", "a: b", ""]));
    assert_eq!(read["parts"], json!("data:,a%20\\ b\n"));
    assert_eq!(read["text"], json!("\n\n# first\n\n  two\n"));
    assert_eq!((&read["name"], &read["version"]), (&json!("99-worker-chrony"), &json!("3.4.0")));
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        ".{0,12}",
        "[a-z \n\t:#-]{0,12}",
        "[0-9eExob_.:+-]{1,6}",
        prop::sample::select(vec![
            "yes", "No", "~", "<<", "=", "---", "...", "|", "null", "TRUE", "\u{85}", "\u{feff}"
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6..1e6).prop_filter("integral floats become integers", |n: &f64| n.fract() != 0.0).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn writing_and_reading_is_the_identity(value in any_value()) {
        let written = to_string(&value);
        prop_assert!(written.ends_with('\n'));
        let read: Vec<Value> = documents(&written).unwrap().into_iter().map(|document| document.value).collect();
        prop_assert_eq!(read, if value.is_null() { vec![] } else { vec![value] }, "{}", written);
    }

    #[test]
    fn what_is_written_by_hand_reads_back_the_same(
        texts in prop::collection::vec(
            prop_oneof![".{0,20}", "[0-9a-fxo_.:eE+-]{1,12}", "[ \n\t#:'\"\\\\a-]{0,12}", "[0-9]{1,3}-[a-z0-9.-]{0,9}"], 1..5),
        mode in 0_u32..=0o7777,
    ) {
        let items = texts.iter().cloned().map(Form::Text).collect();
        let form = Form::Fields(vec![("a", Form::Items(items)), ("b", Form::Parts(texts.clone())), ("c", Form::Octal(mode))]);
        let written = to_hand_written(&form);
        let expected = json!({"a": texts, "b": texts.concat(), "c": mode});
        prop_assert_eq!(&documents(&written).unwrap()[0].value, &expected, "{}", written);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,60}", odd in "[-a1 \n\t:?{}\\[\\],&*!|>'\"%@#.<]{0,60}") {
        for text in [text, odd] {
            for document in documents(&text).unwrap_or_default() {
                // Every field has a place, within the text.
                let place = document.locate("/a/0").unwrap();
                prop_assert!(place.line >= 1 && place.line <= text.split(['\n', '\r']).count());
            }
        }
    }

    #[test]
    fn places_in_json_are_those_that_yaml_has(value in any_value(), is_pretty in any::<bool>()) {
        let value = json!({"top": value, "é\"~/": [1, {}, [], {"a\\b": null}]});
        let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = format!("\n  {} \n", text.unwrap());
        let document = documents(&text).unwrap().remove(0);
        prop_assert!(document.is_json);
        let part = &text[document.range.clone()];
        // Some escapes of JSON are none of YAML.
        if let Ok(composed) = compose::compose(part, document.origin, true, &mut Budget(MAX_MEMORY)) {
            for (pointer, place) in composed.places {
                prop_assert_eq!(document.locate(&pointer), Some(place), "{} in {}", pointer, text);
                prop_assert_eq!(document.locate(&format!("{pointer}/none")), Some(place));
            }
        }
    }

    #[test]
    fn places_are_those_of_the_value(value in any_value()) {
        // Each key of an object is on a line that holds it.
        let written = to_string(&json!({"top": value}));
        let lines: Vec<&str> = written.lines().collect();
        for document in documents(&written).unwrap() {
            let place = document.locate("/top").unwrap();
            prop_assert_eq!(place, Place { line: 1, column: 1 });
            if let Some(fields) = document.value["top"].as_object() {
                for key in fields.keys() {
                    let mut pointer = "/top".to_owned();
                    pointer.push('/');
                    push_escaped(&mut pointer, key);
                    let place = document.locate(&pointer).unwrap();
                    let here: String = lines[place.line - 1].chars().skip(place.column - 1).collect();
                    let mut name = to_string(&Value::from(key.as_str()));
                    if !key.contains('\n') {
                        name.pop();
                        prop_assert!(here.starts_with(&name), "{:?} at {:?}", name, here);
                    }
                }
            }
        }
    }
}
