//! The custom resource definitions are those that were published, property by property, plus a written list of ours.
//!
//! What users see as text (descriptions, messages of rules) is our own; everything that decides what an API server
//! accepts, stores or prints must be there with the same meaning.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Schema fields of ours that the published CRDs lack: all optional. Anything else that is new fails the test.
const ADDED_FIELDS: [&str; 1] = ["machineconfigurations/status.nodeDisruptionPolicyStatus.defaultActions"];

/// Rules that accept more than the published ones: there, and here. `@` names instances of templates.
const WIDENED_RULES: [(&str, &str); 1] =
    [(r"self.matches('^[a-zA-Z0-9:._\\\\-]+\\..')", r"self.matches('^[a-zA-Z0-9:._@\\\\-]+\\..')")];

/// Keywords of a schema that hold other schemas, or text for people.
const WALKED: [&str; 6] =
    ["properties", "items", "additionalProperties", "description", "x-kubernetes-validations", "required"];

/// Published fields in which an empty value says the same as none.
const EMPTY_IS_ABSENT: [&str; 2] = ["categories", "selectableFields"];

fn published() -> BTreeMap<String, Value> {
    [
        include_str!("data/crds/machineconfiguration.alauda.io_machineconfigs.yaml"),
        include_str!("data/crds/machineconfiguration.alauda.io_machineconfigpools.yaml"),
        include_str!("data/crds/machineconfiguration.alauda.io_machineconfigurations.yaml"),
    ]
    .into_iter()
    .map(|text| {
        let crd = mcx::yaml::documents(text).expect("published CRDs are YAML").remove(0).value;
        (plural(&crd), crd)
    })
    .collect()
}

fn ours() -> BTreeMap<String, Value> {
    mcx::api::crds::all().into_iter().map(|crd| (plural(&crd), crd)).collect()
}

fn plural(crd: &Value) -> String {
    crd["spec"]["names"]["plural"].as_str().expect("a CRD has a plural").to_owned()
}

/// Differences, each with its place, and the additions that were met.
#[derive(Default)]
struct Differences {
    found: Vec<String>,
    added: BTreeSet<String>,
    widened: BTreeSet<String>,
}

impl Differences {
    fn say(&mut self, path: &str, what: &str, theirs: Option<&Value>, ours: Option<&Value>) {
        let text = |v: Option<&Value>| v.map_or("nothing".to_owned(), ToString::to_string);
        self.found.push(format!("{path}: {what}: published {}, ours {}", text(theirs), text(ours)));
    }

    fn same(&mut self, path: &str, what: &str, theirs: &Value, ours: &Value) {
        if theirs != ours {
            self.say(path, what, Some(theirs), Some(ours));
        }
    }

    fn crd(&mut self, name: &str, theirs: &Value, ours: &Value) {
        for key in ["apiVersion", "kind"] {
            self.same(name, key, &theirs[key], &ours[key]);
        }
        self.same(name, "name", &theirs["metadata"]["name"], &ours["metadata"]["name"]);
        self.rest(name, object(&theirs["spec"]), object(&ours["spec"]), &["versions", "names"]);
        self.rest(name, object(&theirs["spec"]["names"]), object(&ours["spec"]["names"]), &[]);
        let (theirs, ours) = (versions(theirs), versions(ours));
        assert_eq!((theirs.len(), ours.len()), (1, 1), "{name}: one version is served");
        let (theirs, ours) = (&theirs[0], &ours[0]);
        self.rest(name, object(theirs), object(ours), &["schema", "additionalPrinterColumns"]);
        self.same(name, "printer columns", &columns(theirs), &columns(ours));
        self.schema(&format!("{name}/"), &theirs["schema"]["openAPIV3Schema"], &ours["schema"]["openAPIV3Schema"]);
    }

    /// All keys but those in `but`, which the caller looks at.
    fn rest(&mut self, path: &str, theirs: &Map<String, Value>, ours: &Map<String, Value>, but: &[&str]) {
        let keys: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
        for key in keys.into_iter().filter(|k| !but.contains(&k.as_str())) {
            let empty = |v: &&Value| !(EMPTY_IS_ABSENT.contains(&key.as_str()) && **v == serde_json::json!([]));
            let (a, b) = (theirs.get(key).filter(empty), ours.get(key).filter(empty));
            let (a, b) = if key == "enum" { (a.map(sorted), b.map(sorted)) } else { (a.cloned(), b.cloned()) };
            if a != b {
                self.say(path, key, a.as_ref(), b.as_ref());
            }
        }
    }

    fn schema(&mut self, path: &str, theirs: &Value, ours: &Value) {
        self.rest(path, object(theirs), object(ours), &WALKED);
        let required = |v: &Value| v.get("required").map(sorted).unwrap_or_default();
        self.same(path, "required", &required(theirs), &required(ours));
        self.rules(path, theirs, ours);
        let (a, b) = (object(&theirs["properties"]), object(&ours["properties"]));
        for (field, schema) in a {
            let path = join(path, field);
            match b.get(field) {
                Some(own) => self.schema(&path, schema, own),
                None => self.say(&path, "field is missing", Some(&schema["type"]), None),
            }
        }
        for field in b.keys().filter(|f| !a.contains_key(*f)) {
            let path = join(path, field);
            if ADDED_FIELDS.contains(&path.as_str()) {
                self.added.insert(path);
            } else {
                self.say(&path, "field was never published and is in no list", None, Some(&b[field]["type"]));
            }
        }
        for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
            match (theirs.get(key), ours.get(key)) {
                (None, None) => {}
                (Some(a), Some(b)) => self.schema(&format!("{path}{suffix}"), a, b),
                (a, b) => self.say(path, key, a, b),
            }
        }
    }

    fn rules(&mut self, path: &str, theirs: &Value, ours: &Value) {
        let key = "x-kubernetes-validations";
        let rules = |schema: &Value| -> BTreeSet<String> {
            let list = schema[key].as_array().cloned().unwrap_or_default();
            list.iter().map(|r| r["rule"].as_str().unwrap_or_default().to_owned()).collect()
        };
        for rule in ours[key].as_array().into_iter().flatten() {
            let message = rule["message"].as_str().unwrap_or_default();
            assert!(!message.is_empty(), "{path}: a rule without a message for people");
            let keys: Vec<&String> = object(rule).keys().collect();
            assert_eq!(keys, ["message", "rule"], "{path}: more than the published rules have");
        }
        let mut expected = BTreeSet::new();
        for rule in rules(theirs) {
            match WIDENED_RULES.iter().find(|(from, _)| *from == rule) {
                Some((_, to)) => {
                    self.widened.insert((*to).to_owned());
                    expected.insert((*to).to_owned());
                }
                None => {
                    expected.insert(rule);
                }
            }
        }
        let have = rules(ours);
        for rule in expected.symmetric_difference(&have) {
            let (a, b) = (expected.contains(rule), have.contains(rule));
            let text = Value::String(rule.clone());
            self.say(path, "CEL rule", a.then_some(&text), b.then_some(&text));
        }
    }
}

fn join(path: &str, field: &str) -> String {
    if path.ends_with('/') { format!("{path}{field}") } else { format!("{path}.{field}") }
}

fn object(value: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&EMPTY)
}

fn sorted(value: &Value) -> Value {
    let mut list = value.as_array().cloned().unwrap_or_default();
    list.sort_by_key(ToString::to_string);
    Value::Array(list)
}

fn versions(crd: &Value) -> Vec<Value> {
    crd["spec"]["versions"].as_array().cloned().unwrap_or_default()
}

/// Columns in their order, without their descriptions.
fn columns(version: &Value) -> Value {
    let mut columns = version.get("additionalPrinterColumns").cloned().unwrap_or_default();
    for column in columns.as_array_mut().into_iter().flatten() {
        column.as_object_mut().expect("a column is an object").remove("description");
    }
    columns
}

fn differences(theirs: &BTreeMap<String, Value>, ours: &BTreeMap<String, Value>) -> Differences {
    let mut all = Differences::default();
    assert_eq!(theirs.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
    for (name, crd) in theirs {
        all.crd(name, crd, &ours[name]);
    }
    all
}

#[test]
fn all_that_was_published_is_there_and_additions_are_a_written_list() {
    let all = differences(&published(), &ours());
    assert!(all.found.is_empty(), "{} differences:\n{}", all.found.len(), all.found.join("\n"));
    let listed: BTreeSet<String> = ADDED_FIELDS.map(str::to_owned).into();
    assert_eq!(all.added, listed, "the list of additions names fields that do not exist");
    let listed: BTreeSet<String> = WIDENED_RULES.map(|(_, to)| to.to_owned()).into();
    assert_eq!(all.widened, listed, "the list of widened rules names rules that do not exist");
}

/// What is changed, what the report must name, where, and how.
type Change<'a> = (&'a str, &'a str, String, Box<dyn Fn(&mut Value)>);

/// The comparison itself: each change of a schema is one that it must report.
#[test]
fn the_comparison_sees_every_kind_of_difference() {
    let policy = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/nodeDisruptionPolicy/properties";
    let pool = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let remove = |v: &mut Value, key: &str| {
        v.as_object_mut().expect("an object").remove(key).expect("it was there");
    };
    let changes: Vec<Change> = vec![
        ("type", "machineconfigpools", format!("{pool}/paused"), Box::new(|v| v["type"] = "string".into())),
        ("field gone", "machineconfigpools", pool.to_owned(), Box::new(move |v| remove(v, "paused"))),
        (
            "field new",
            "machineconfigpools",
            pool.to_owned(),
            Box::new(|v| v["color"] = serde_json::json!({"type": "string"})),
        ),
        ("default", "machineconfigpools", format!("{pool}/paused"), Box::new(|v| v["default"] = false.into())),
        (
            "int-or-string",
            "machineconfigpools",
            format!("{pool}/maxUnavailable"),
            Box::new(move |v| remove(v, "x-kubernetes-int-or-string")),
        ),
        ("nullable", "machineconfigs", format!("{pool}/kernelArguments"), Box::new(move |v| remove(v, "nullable"))),
        (
            "unknown fields",
            "machineconfigs",
            format!("{pool}/config"),
            Box::new(move |v| remove(v, "x-kubernetes-preserve-unknown-fields")),
        ),
        ("bound", "machineconfigurations", format!("{policy}/files"), Box::new(|v| v["maxItems"] = 51.into())),
        (
            "list type",
            "machineconfigurations",
            format!("{policy}/files"),
            Box::new(|v| v["x-kubernetes-list-type"] = "atomic".into()),
        ),
        (
            "map keys",
            "machineconfigurations",
            format!("{policy}/files"),
            Box::new(move |v| remove(v, "x-kubernetes-list-map-keys")),
        ),
        ("required", "machineconfigurations", format!("{policy}/sshkey"), Box::new(move |v| remove(v, "required"))),
        (
            "rule gone",
            "machineconfigurations",
            format!("{policy}/sshkey/properties/actions"),
            Box::new(move |v| remove(v, "x-kubernetes-validations")),
        ),
        (
            "enum",
            "machineconfigurations",
            format!("{policy}/sshkey/properties/actions/items/properties/type"),
            Box::new(|v| v["enum"] = serde_json::json!(["None"])),
        ),
        ("scope", "machineconfigs", "/spec".to_owned(), Box::new(|v| v["scope"] = "Namespaced".into())),
        ("short name", "machineconfigs", "/spec/names".to_owned(), Box::new(move |v| remove(v, "shortNames"))),
        (
            "column",
            "machineconfigpools",
            "/spec/versions/0/additionalPrinterColumns/0".to_owned(),
            Box::new(|v| v["name"] = "Cfg".into()),
        ),
        (
            "subresources",
            "machineconfigpools",
            "/spec/versions/0".to_owned(),
            Box::new(move |v| remove(v, "subresources")),
        ),
    ];
    for (what, crd, pointer, change) in changes {
        let mut ours = ours();
        let place = ours.get_mut(crd).and_then(|c| c.pointer_mut(&pointer));
        change(place.unwrap_or_else(|| panic!("{what}: no {pointer} in {crd}")));
        assert!(!differences(&published(), &ours).found.is_empty(), "{what}: went unseen");
    }
}
