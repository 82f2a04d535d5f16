use super::*;

fn input(name: &str, text: &str) -> Input {
    Input { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
}

fn source(name: &str) -> String {
    format!("apiVersion: {API_VERSION}\nkind: MachineConfig\nmetadata:\n  name: {name}\n")
}

fn lines(loaded: &Loaded) -> Vec<String> {
    loaded.findings.iter().map(Finding::to_string).collect()
}

#[test]
fn lists_are_opened_and_their_elements_keep_their_places() {
    let list = "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
- apiVersion: machineconfiguration.alauda.io/v1alpha1
  kind: MachineConfig
  metadata: {name: 10-a}
- apiVersion: machineconfiguration.alauda.io/v1alpha1
  kind: MachineConfigList
  items:
  - apiVersion: machineconfiguration.alauda.io/v1alpha1
    kind: MachineConfigPool
    metadata:
      name: infra
    spec:
      pausd: true
";
    let loaded = load(vec![input("list.yaml", list)]);
    assert_eq!(loaded.configs[0].name(), "10-a");
    assert_eq!(loaded.pools[0].name(), "infra");
    assert_eq!(
        lines(&loaded),
        [
            "list.yaml:17:7: error: MachineConfigPool/infra: spec.pausd: unknown key; did you mean `paused`? [unknown-key]"
        ]
    );
    // Findings that are made later get their place by the object's name.
    let mut later = vec![rule::NO_SOURCES.finding("MachineConfigPool/infra", "spec", "x")];
    loaded.locate(&mut later);
    assert_eq!((later[0].file.as_deref(), later[0].line), (Some("list.yaml"), Some(16)));
}

#[test]
fn json_is_read_as_yaml_is() {
    let yaml = load(vec![input("a", &format!("{}spec: {{config: {{mode: 1}}}}\n", source("10-a")))]);
    let json = serde_json::to_string_pretty(&yaml.configs[0]).unwrap();
    let again = load(vec![input("b.json", &json)]);
    assert_eq!(again.configs, yaml.configs);
    assert_eq!(lines(&again), Vec::<String>::new());
}

#[test]
fn a_name_that_is_there_twice_is_named_with_both_files() {
    let loaded = load(vec![input("a.yaml", &source("10-a")), input("b.yaml", &format!("\n{}", source("10-a")))]);
    assert_eq!(
        lines(&loaded),
        [
            "b.yaml:5:3: error: MachineConfig/10-a: metadata.name: is there already, in a.yaml:1; keep one [duplicate-object]"
        ]
    );
    assert_eq!(loaded.configs.len(), 1);
    let other_kind = source("10-a").replace("MachineConfig", "MachineConfigPool") + "spec: {}\n";
    assert!(!load(vec![input("a", &source("10-a")), input("b", &other_kind)]).has_errors(), "names are per kind");
}

#[test]
fn fields_of_pools_and_policies_are_checked() {
    let object = |kind: &str, spec: &str| {
        format!("apiVersion: {API_VERSION}\nkind: {kind}\nmetadata: {{name: cluster}}\nspec:\n  {spec}\n")
    };
    for (kind, spec, expected) in [
        ("MachineConfigPool", "maxUnavailable: [1]", "spec.maxUnavailable: found a list"),
        ("MachineConfigPool", "paused: \"true\"", "spec.paused: found a string"),
        ("MachineConfigPool", "nodeSelector: {matchLabels: {a: 1}}", "spec.nodeSelector.matchLabels.a: found a number"),
        ("MachineConfigPool", "nodeSelector: {matchLabel: {a: b}}", "spec.nodeSelector.matchLabel: unknown key"),
        (
            "MachineConfiguration",
            "nodeDisruptionPolicy: {files: [{path: /etc/x, action: []}]}",
            "spec.nodeDisruptionPolicy.files[0].action: unknown key",
        ),
        ("MachineConfiguration", "nodeDisruptionPolicy: {sshKey: {}}", "did you mean `sshkey`?"),
        (
            "MachineConfiguration",
            "nodeDisruptionPolicy: {files: [{actions: []}]}",
            "spec.nodeDisruptionPolicy.files[0]",
        ),
    ] {
        let found = lines(&load(vec![input("x", &object(kind, spec))]));
        assert_eq!(found.len(), 1, "{spec}: {found:?}");
        assert!(found[0].contains(expected), "{spec}: {found:?}");
    }
    for (kind, spec) in [
        ("MachineConfigPool", "maxUnavailable: 50%"),
        ("MachineConfigPool", "maxUnavailable: 2"),
        ("MachineConfiguration", "nodeDisruptionPolicy: null"),
    ] {
        assert_eq!(lines(&load(vec![input("x", &object(kind, spec))])), Vec::<String>::new(), "{spec}");
    }
}

#[test]
fn lists_in_lists_without_end_are_no_trap() {
    let mut text = source("10-a").replace('\n', ", ").replace("metadata:,   name: 10-a, ", "metadata: {name: 10-a}");
    for _ in 0..20 {
        text = format!("apiVersion: v1, kind: List, items: [{{{text}}}]");
    }
    let loaded = load(vec![input("x", &format!("{{{text}}}"))]);
    assert!(loaded.configs.is_empty());
}

#[test]
fn lines_of_what_was_read_can_be_shown() {
    let text = format!("{}spec: {{}}\r\n# é\n\nlast", source("10-a"));
    let loaded = load(vec![input("a", &text), input("broken", "a: [1\nb: 2")]);
    for (file, line, expected) in [
        ("a", 0, None),
        ("a", 1, Some("apiVersion: machineconfiguration.alauda.io/v1alpha1")),
        ("a", 5, Some("spec: {}")),
        ("a", 6, Some("# é")),
        ("a", 7, Some("")),
        ("a", 8, Some("last")),
        ("a", 9, None),
        ("broken", 2, Some("b: 2")),
        ("b", 1, None),
    ] {
        assert_eq!(loaded.line(file, line), expected, "{file}:{line}");
    }
    let mut latin = b"a: 1\nb: ".to_vec();
    latin.push(0xe9);
    let loaded = load(vec![Input { name: "latin".to_owned(), bytes: latin }]);
    assert_eq!(loaded.line("latin", 2), Some("b: \u{fffd}"));
}

#[test]
fn shipped_sources_are_there_unless_they_were_read() {
    let names =
        |loaded: &Loaded| -> Vec<String> { loaded.absent_sources().iter().map(|c| c.name().to_owned()).collect() };
    assert_eq!(names(&load(Vec::new())), ["00-master", "00-worker"]);
    assert_eq!(names(&load(vec![input("a", &source("00-worker"))])), ["00-master"]);
}

/// All that can be seen of an input.
fn seen(loaded: &Loaded) -> String {
    let places: Vec<_> = loaded
        .configs
        .iter()
        .map(|config| {
            let mut finding = rule::FILE_PATH.finding(&format!("MachineConfig/{}", config.name()), "spec.config", "x");
            loaded.locate(std::slice::from_mut(&mut finding));
            (finding.line, finding.column)
        })
        .collect();
    let foreign = loaded.foreign::<Value>("Node", &mut Vec::new());
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{places:?}\n{foreign:?}\n{:?}",
        loaded.configs,
        loaded.pools,
        loaded.policies,
        loaded.findings,
        loaded.origins.keys()
    )
}

#[test]
fn a_json_text_is_read_at_once_as_it_is_read_object_by_object() {
    let source = |name: &str, config: &str| {
        format!(
            "{{\"apiVersion\": \"machineconfiguration.alauda.io/v1alpha1\", \"kind\": \"MachineConfig\", \
             \"metadata\": {{\"name\": \"{name}\", \"labels\": {{\"a\": \"b\"}}, \"generation\": 1.0}}, \
             \"spec\": {{\"config\": {config}}}}}"
        )
    };
    let fine =
        source("10-a", "{\"ignition\": {\"version\": \"3.4.0\"}, \"storage\": {\"files\": [{\"path\": \"/etc/a\"}]}}");
    let elements = [
        fine.clone(),
        source("20-b", "{\"storage\": {\"files\": [{\"path\": 1}]}}"),
        source("30-c", "null"),
        source("40-d", "{\"ignition\": {}, \"ignition\": {\"version\": \"3.4.0\"}}"),
        source("50-e", "{\"storage\": {\"files\": [{\"path\": \"\\u00e9\\ud83d\\ude00\\n\"}]}}"),
        source("60-f", "{\"storage\": {\"files\": [{\"mode\": 420.0}]}}"),
        source("", "{}"),
        source("10-a", "{}"),
        fine.replace("\"spec\"", "\"status\": {}, \"spec\""),
        fine.replace("\"spec\"", "\"spec\": {\"kernelArguments\": []}, \"spec\""),
        fine.replace("\"kind\"", "\"kind\": \"MachineConfigPool\", \"kind\""),
        fine.replace("v1alpha1", "v1"),
        fine.replace("{\"name\": \"10-a\"", "{\"name\": 7"),
        "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n\"}, \"x\": [1.0, -0, 1e3]}"
            .to_owned(),
        format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}}", source("70-g", "{}")),
        "null".to_owned(),
        "7".to_owned(),
        "[\"v\", \"MachineConfig\", {}, {}]".to_owned(),
        format!("{}{}", "[".repeat(124), "]".repeat(124)),
        format!("{}{}", "[".repeat(126), "]".repeat(126)),
        "{\"kind\": \"\\ud800\"}".to_owned(),
        "1e999".to_owned(),
        "{".to_owned(),
    ];
    let at_once = |text: &str| seen(&load(vec![input("x", text)]));
    let one_by_one = |text: &str| {
        let mut loaded = Loaded::default();
        loaded.keep("x", text.into());
        loaded.documents("x", &text.into());
        seen(&loaded)
    };
    for one in &elements {
        assert_eq!(at_once(one), one_by_one(one), "{one}");
        for other in &elements {
            for list in [
                format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{one}, {other}]}}"),
                format!(
                    " {{\"items\": [ {one},\n{other} ], \"metadata\": {{\"x\": 1.0}}, \"kind\": \"MachineConfigList\",\n\
                         \"apiVersion\": \"machineconfiguration.alauda.io/v1alpha1\"}} \n"
                ),
            ] {
                assert_eq!(at_once(&list), one_by_one(&list), "{list}");
            }
        }
    }
    for list in [
        "{}".to_owned(),
        "{\"items\": []}".to_owned(),
        "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": []}".to_owned(),
        "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": {}}".to_owned(),
        "{\"kind\": \"List\", \"apiVersion\": \"v2\", \"items\": []}".to_owned(),
        format!("{{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{fine}]}} {fine}"),
        format!("{{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{fine}], \"items\": []}}"),
        format!("{{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{fine}]}}x"),
        format!("{{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{fine}],}}"),
        format!("{{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{fine} {fine}]}}"),
        format!("{{kind: List, apiVersion: v1, items: [{fine}]}}"),
        format!("{fine}\n{fine}"),
    ] {
        assert_eq!(at_once(&list), one_by_one(&list), "{list}");
    }
}
