//! `mcx validate` as people and CI use it: what is found, where, in each format, and what the exit code says.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::{code, command, err, mcx, out};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

const HEAD: &str = "apiVersion: machineconfiguration.alauda.io/v1alpha1\n";

fn validate(args: &[&str]) -> Output {
    mcx(&[&["validate"], args].concat())
}

/// With `input` on standard input.
fn piped(input: &str, args: &[&str]) -> Output {
    command_line::piped(&[&["validate", "-f", "-"], args].concat(), input)
}

/// What `-o json` says.
fn report(input: &str) -> Value {
    let output = piped(input, &["-o", "json"]);
    assert_eq!(err(&output), "", "programs are told nothing beside");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `OBJECT PATH LINE:COLUMN RULE` of each finding, in order.
fn lines(report: &Value) -> Vec<String> {
    let text = |f: &Value, key: &str| f[key].as_str().unwrap().to_owned();
    let list = report["findings"].as_array().unwrap();
    list.iter()
        .map(|f| format!("{} {} {}:{} {}", text(f, "object"), text(f, "path"), f["line"], f["column"], text(f, "rule")))
        .collect()
}

/// A source of pool `role`, with the sections of its config from line 8 on, indented by four.
fn source(name: &str, role: &str, sections: &str) -> String {
    let mut text = format!(
        "{HEAD}kind: MachineConfig\nmetadata:\n  name: {name}\n  labels: {{machineconfiguration.alauda.io/role: {role}}}\n\
         spec:\n  config:\n    ignition: {{version: 3.4.0}}\n"
    );
    for line in sections.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A custom pool that takes its own sources beside those of worker.
const INFRA: &str = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfigPool
metadata: {name: infra}
spec:
  machineConfigSelector:
    matchExpressions:
    - {key: machineconfiguration.alauda.io/role, operator: In, values: [worker, infra]}
  nodeSelector: {matchLabels: {node-role.kubernetes.io/infra: ''}}
";

#[test]
fn a_finding_is_followed_by_its_line_and_a_caret() {
    let output = validate(&["-f", "examples/ssh.yaml"]);
    assert_eq!(code(&output), 0, "{}", out(&output));
    let lines: Vec<&str> = out(&output).lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("examples/ssh.yaml:16:15: warning: MachineConfig/99-worker-ssh: spec.config.passwd"));
    assert!(lines[0].ends_with("[key-form]"), "{}", lines[0]);
    assert_eq!(lines[1], " 16 |             - ssh-rsa <ssh-public-key>");
    assert_eq!(lines[2], "    |               ^");
    assert_eq!(err(&output), "1 warning\n");
    let strict = validate(&["--strict", "-f", "examples/ssh.yaml"]);
    assert_eq!((code(&strict), out(&strict)), (1, out(&output)), "the same is said, and it counts");
}

#[test]
fn a_clean_input_prints_nothing_but_a_line_for_people() {
    let clean = source("99-x", "worker", "");
    let output = piped(&clean, &["--strict"]);
    assert_eq!((code(&output), out(&output), err(&output)), (0, "", "no findings in 1 object\n"));
    for format in ["json", "github"] {
        let output = piped(&clean, &["-o", format]);
        assert_eq!((code(&output), err(&output)), (0, ""), "{format}");
    }
    assert_eq!(report(&clean), json!({"findings": [], "errors": 0, "warnings": 0}));
    assert_eq!(out(&piped(&clean, &["-o", "github"])), "");
}

#[test]
fn an_input_with_nothing_of_ours_is_an_error_that_names_it() {
    // A wrong path in a CI job would look like success.
    let foreign = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    for (format, shown) in [("text", ""), ("json", "findings"), ("github", "")] {
        for nothing in ["", "---\n# nothing\n", foreign, "apiVersion: v1\nkind: List\nitems: []\n"] {
            let output = piped(nothing, &["-o", format]);
            let said =
                "mcx: nothing to validate in -: there is no MachineConfig, MachineConfigPool or MachineConfiguration\n";
            assert_eq!((code(&output), err(&output)), (1, said), "{format}: {nothing}");
            assert!(out(&output).contains(shown), "programs read what they know: {}", out(&output));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (empty, other) = (write(folder.path(), "empty.yaml", ""), write(folder.path(), "other.yaml", foreign));
    let output = validate(&["-f", &empty, "-f", &other]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains(&format!("nothing to validate in {empty}, {other}: ")), "{}", err(&output));
    // Among others they are skipped, as a folder of manifests has them.
    write(folder.path(), "ours.yaml", &source("99-x", "worker", ""));
    let output = validate(&["-f", &folder.path().display().to_string()]);
    assert_eq!((code(&output), err(&output)), (0, "no findings in 1 object\n"));
    // What cannot be read is said by itself.
    let output = piped("kind: [", &[]);
    assert_eq!((code(&output), err(&output)), (1, "1 error\n"), "{}", out(&output));
}

#[test]
fn json_has_exactly_the_promised_form() {
    let input = source("99-x", "worker", "storage:\n  files:\n  - path: /etc/x\n    mode: \"0644\"");
    let output = piped(&input, &["-o", "json"]);
    assert_eq!(code(&output), 1);
    assert_eq!(
        out(&output),
        "{
  \"findings\": [
    {
      \"severity\": \"error\",
      \"rule\": \"field-type\",
      \"object\": \"MachineConfig/99-x\",
      \"path\": \"spec.config.storage.files[0].mode\",
      \"file\": \"-\",
      \"line\": 12,
      \"column\": 9,
      \"message\": \"found a string, expected a whole number\",
      \"help\": \"write the permission bits as a number without quotes, such as 0o644\"
    }
  ],
  \"errors\": 1,
  \"warnings\": 0
}
"
    );
    // Of what has no place, the place is left out.
    let big = " ".repeat((32 << 20) + 1);
    let found = report(&big);
    assert_eq!(found["findings"][0]["rule"], "input-size");
    let keys: Vec<&String> = found["findings"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["file", "help", "message", "object", "path", "rule", "severity"]);
}

#[test]
fn github_gets_annotations() {
    let folder = tempfile::tempdir().unwrap();
    let input = source("99-x", "worker", "storage:\n  files:\n  - path: etc/100%\n    mode: 644");
    write(folder.path(), "a,b.yaml", &input);
    let output = command(&["validate", "-f", ".", "-o", "github"]).current_dir(folder.path()).output().unwrap();
    assert_eq!((code(&output), err(&output)), (1, ""));
    assert_eq!(
        out(&output),
        "::error file=a%2Cb.yaml,line=11,col=9,title=file-path::MachineConfig/99-x: spec.config.storage.files[0].path: \
         `etc/100%25` is not absolute; write an absolute path without //, ., .. and a / at its end\n\
         ::warning file=a%2Cb.yaml,line=12,col=9,title=mode-decimal::MachineConfig/99-x: spec.config.storage.files[0].mode: \
         644 is decimal and means 0o1204; write 0o644 if that is meant\n"
    );
}

#[test]
fn fifty_errors_in_ten_files_are_all_reported_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..10 {
        let mut files = "storage:\n  files:\n".to_owned();
        for j in 0..5 {
            let _ = writeln!(files, "  - path: etc/{i}-{j}\n    contents: {{source: 'data:,x'}}");
        }
        // Half of them belong to no pool: they are looked at all the same.
        let role = if i % 2 == 0 { "worker" } else { "nobody" };
        write(folder.path(), &format!("{i}.yaml"), &source(&format!("{i}0-x"), role, &files));
    }
    let output = validate(&["-f", &folder.path().display().to_string(), "-o", "json"]);
    assert_eq!(code(&output), 1);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["errors"], &report["warnings"]), (&json!(50), &json!(5)));
    let list = report["findings"].as_array().unwrap();
    let paths: Vec<&Value> = list.iter().filter(|f| f["rule"] == "file-path").collect();
    for (n, finding) in paths.iter().enumerate() {
        let (file, entry) = (n / 5, n % 5);
        assert_eq!(finding["object"], format!("MachineConfig/{file}0-x"));
        assert!(finding["file"].as_str().unwrap().ends_with(&format!("/{file}.yaml")), "{finding}");
        assert_eq!((&finding["line"], &finding["column"]), (&json!(11 + 2 * entry), &json!(9)), "{finding}");
    }
    let unselected = list.iter().filter(|f| f["rule"] == "source-unselected").count();
    assert_eq!((paths.len(), unselected), (50, 5));
}

#[test]
fn findings_stand_at_their_very_key() {
    // Block and flow style, several documents, comments, wide characters, JSON, an element of a List.
    let flow = "storage: {files: [{path: /etc/x, mode: 644, contents: {source: 'data:,x'}}]}";
    let two = format!("# first\n{}---\n# second\n{}", source("10-a", "worker", flow), source("20-b", "worker", flow));
    assert_eq!(
        lines(&report(&two)),
        [
            "MachineConfig/10-a spec.config.storage.files[0].mode 10:38 mode-decimal",
            "MachineConfig/20-b spec.config.storage.files[0].mode 21:38 mode-decimal",
        ]
    );
    let wide = "storage: {files: [{user: {name: '漢字'}, path: /etc/x, mode: 644, contents: {source: 'data:,x'}}]}";
    let output = piped(&source("10-a", "worker", wide), &[]);
    let text: Vec<&str> = out(&output).lines().collect();
    assert!(text[0].starts_with("-:9:58: "), "characters are counted, not bytes or columns: {}", text[0]);
    let at = text[2].find('^').unwrap();
    let before = text[1].split("mode").next().unwrap();
    assert_eq!(at, before.chars().count() + 2, "each of the two takes two columns: {text:?}");
    let list = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [
  {\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"data\": {\"mode\": 1}},
  {\"apiVersion\": \"machineconfiguration.alauda.io/v1alpha1\", \"kind\": \"MachineConfig\",
   \"metadata\": {\"name\": \"10-a\", \"labels\": {\"machineconfiguration.alauda.io/role\": \"worker\"}},
   \"spec\": {\"config\": {\"ignition\": {\"version\": \"3.4.0\"}, \"storge\": {}}}}
]}";
    assert_eq!(lines(&report(list)), ["MachineConfig/10-a spec.config.storge 5:58 unknown-key"]);
}

#[test]
fn a_key_that_is_there_twice_is_said_at_the_second_one() {
    let twice =
        source("10-a", "worker", "storage: {files: [{path: /etc/x, path: /etc/y, contents: {source: 'data:,'}}]}");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", twice.trim_end().replace('\n', "\n  "));
    assert_eq!(lines(&report(&twice)), ["MachineConfig/10-a spec.config.storage.files[0].path 9:38 duplicate-key"]);
    assert_eq!(lines(&report(&list)), ["MachineConfig/10-a spec.config.storage.files[0].path 12:40 duplicate-key"]);
    let foreign = "apiVersion: v1\nkind: ConfigMap\ndata: {a: b, a: c}\n---\n".to_owned();
    let beside = piped(&(foreign + &source("99-x", "worker", "")), &[]);
    assert_eq!((code(&beside), out(&beside)), (0, ""), "what is not ours is not judged");
}

#[test]
fn texts_that_cannot_be_read_do_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let bad = write(folder.path(), "bad.yaml", "a: [1\n");
    let latin = folder.path().join("latin.yaml");
    fs::write(&latin, b"kind: \xe9\n").unwrap();
    let good = write(folder.path(), "good.yaml", &source("10-a", "worker", "storge: {}"));
    let output = validate(&["-f", &bad, "-f", &latin.display().to_string(), "-f", &good]);
    assert_eq!(code(&output), 1);
    for (file, rule) in
        [("bad.yaml:", "[yaml]"), ("latin.yaml:1:7:", "[input-encoding]"), ("good.yaml:9:5:", "[unknown-key]")]
    {
        assert!(out(&output).lines().any(|l| l.contains(file) && l.ends_with(rule)), "{file} {}", out(&output));
    }
    assert_eq!(err(&output), "3 errors\n");
}

#[test]
fn every_pool_is_rendered_and_what_two_of_them_share_is_said_once() {
    // 10-a is in worker and infra; each of 10-a and 20-b is fine, together they are not, and only in infra.
    let file = "storage: {files: [{path: /etc/systemd/system/a.service, mode: 644, contents: {source: 'data:,x'}}]}";
    let unit = "systemd: {units: [{name: a.service, contents: \"[Unit]\\n\"}]}";
    let text = format!("{INFRA}---\n{}---\n{}", source("10-a", "worker", file), source("20-b", "infra", unit));
    let found = report(&text);
    assert_eq!(
        lines(&found),
        [
            "MachineConfig/10-a spec.config.storage.files[0].path 18:24 unit-file",
            "MachineConfig/10-a spec.config.storage.files[0].mode 18:61 mode-decimal",
        ]
    );
    assert_eq!((&found["errors"], &found["warnings"]), (&json!(1), &json!(1)));
    let alone = report(&source("10-a", "worker", file));
    assert_eq!(alone["errors"], 0, "{alone}");
}

#[test]
fn what_sources_do_to_each_other_is_said_beside_their_own_errors() {
    let file =
        "storage: {files: [{path: /etc/systemd/system/a.service, contents: {source: 'data:,x'}}, {path: etc/y}]}";
    let unit = "systemd: {units: [{name: a.service, contents: \"[Unit]\\n\"}]}";
    let key = "storage: {files: [{path: /etc/k, contents: {source: 'data:,-----BEGIN%20PRIVATE%20KEY-----'}}, {path: /etc/e}]}";
    let text = [source("10-a", "worker", file), source("20-b", "worker", unit), source("30-c", "worker", key)];
    assert_eq!(
        lines(&report(&text.join("---\n"))),
        [
            "MachineConfig/10-a spec.config.storage.files[0].path 9:24 unit-file",
            "MachineConfig/10-a spec.config.storage.files[1].path 9:94 file-path",
            // Not that /etc/e is empty: the source that is refused may say what is in it.
            "MachineConfig/30-c spec.config.storage.files[0].mode 29:23 secret-readable",
        ]
    );
}

#[test]
fn a_file_without_a_path_is_not_taken_for_the_root_of_all() {
    let files = "storage: {files: [{mode: 0o644}, {path: /etc/x, contents: {source: 'data:,x'}}]}";
    let found = report(&source("10-a", "worker", files));
    assert_eq!(lines(&found), ["MachineConfig/10-a spec.config.storage.files[0].path 9:23 file-path"]);
}

#[test]
fn pools_and_policies_have_findings_with_places() {
    let pool = format!("{INFRA}  pausd: true\n");
    let policy = format!(
        "{HEAD}kind: MachineConfiguration\nmetadata: {{name: cluster}}\nspec:\n  nodeDisruptionPolicy:\n    files:\n    \
         - path: /etc/x\n      actions: [{{type: Reboot}}, {{type: None}}]\n    units:\n    - name: a.servce\n      actions: [{{type: None}}]\n"
    );
    let other = policy.replace("name: cluster", "name: other").replace("[{type: Reboot}, {type: None}]", "[]");
    let other = other.replace("a.servce", "a.service");
    let found = report(&format!("{pool}---\n{policy}---\n{other}"));
    assert_eq!(
        lines(&found),
        [
            "MachineConfigPool/infra spec.pausd 9:3 unknown-key",
            "MachineConfiguration/cluster spec.nodeDisruptionPolicy.files[0].actions 18:7 policy",
            "MachineConfiguration/cluster spec.nodeDisruptionPolicy.files[0].actions 18:7 policy",
            "MachineConfiguration/cluster spec.nodeDisruptionPolicy.units[0].name 20:7 policy",
            "MachineConfiguration/other metadata.name 25:12 policy",
        ]
    );
}

#[test]
fn what_mcx_ships_is_known_and_what_could_not_be_read_is_not_missed() {
    // A cluster has 00-worker and 00-master, so that its pools are never without a source.
    assert_eq!(lines(&report(INFRA)), [""; 0]);
    // A slip in the pool's own selector is another matter.
    let slip = INFRA.replace("machineConfigSelector", "machineConfigSelectr");
    let own = source("50-infra", "infra", "");
    assert_eq!(
        lines(&report(&format!("{slip}---\n{own}"))),
        [
            "MachineConfigPool/infra spec.machineConfigSelector 4:1 pool-worker",
            "MachineConfigPool/infra spec.machineConfigSelectr 5:3 unknown-key",
        ],
        "not that no pool selects 50-infra"
    );
    // Rendered ones are no sources, whatever is in them.
    let rendered = source("rendered-worker-1", "worker", "storge: {}").replace("/role: worker", "/rendered: worker");
    assert_eq!(lines(&report(&rendered)), [""; 0]);
}

#[test]
fn a_long_line_is_cut_and_contents_are_not_shown() {
    let secret = "c2VjcmV0".repeat(30);
    let flow = format!(
        "storage: {{files: [{{path: /etc/x, contents: {{source: 'data:;base64,{secret}'}}, {}mode: 644}}]}}",
        " ".repeat(200)
    );
    let output = piped(&source("10-a", "worker", &flow), &[]);
    let text: Vec<&str> = out(&output).lines().collect();
    assert!(text[0].ends_with("[mode-decimal]"), "{text:?}");
    assert!(text[1].chars().count() <= 100 && text[1].contains("mode: 644"), "{text:?}");
    assert_eq!(text[1].chars().nth(text[2].chars().count() - 1), Some('m'), "{text:?}");
    let broken = source("10-a", "worker", &flow.replace("base64,", "base64,*"));
    for format in ["text", "json", "github"] {
        let output = piped(&broken, &["-o", format]);
        assert_eq!(code(&output), 1);
        assert!(!out(&output).contains("c2Vj") && !err(&output).contains("c2Vj"), "{format}: {}", out(&output));
    }
}

#[test]
fn colour_is_only_where_it_is_wanted() {
    let coloured = |name: &str| -> bool {
        let mut command = command(&["validate", "-f", "examples/"]);
        if !name.is_empty() {
            command.env("CLICOLOR_FORCE", "1").env(name, "1");
        }
        out(&command.output().unwrap()).contains('\u{1b}')
    };
    assert!(!coloured(""), "not for a pipe");
    assert!(coloured("CLICOLOR_FORCE"));
    assert!(!coloured("NO_COLOR"));
    // Whatever stands in an input, a terminal does not act on it.
    let odd = source("99-x", "worker", "\"a\\eb\": 1 # \u{1b}[31m").replace("a\\eb", "a\\x1b[31mb");
    let output = piped(&odd, &[]);
    assert_eq!(code(&output), 1);
    assert!(!out(&output).contains('\u{1b}'), "{:?}", out(&output));
}

#[test]
fn a_closed_pipe_does_not_change_the_verdict() {
    for (args, expected) in [(&["-f", "examples/"][..], 0), (&["--strict", "-f", "examples/", "-o", "json"], 1)] {
        let mut child =
            command(&[&["validate"], args].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{args:?}");
    }
}

#[test]
fn exit_codes_tell_wrong_from_could_not() {
    for (args, expected) in [
        (&["-f", "examples"][..], 0),
        (&["-f", "no-such-file"], 2),
        (&["-f", "src"], 2),
        (&["-f", "examples", "-o", "xml"], 2),
        (&["-f", "-", "-f", "-"], 2),
        (&[], 2),
        (&["--help"], 0),
    ] {
        let output = validate(args);
        assert_eq!(code(&output), expected, "{args:?}: {}", err(&output));
        if expected == 2 {
            assert_eq!(out(&output), "", "{args:?}");
        }
    }
    assert!(out(&validate(&["--help"])).contains("Examples:"));
    let missing = validate(&["-f", "no-such-file", "-o", "json"]);
    assert!(err(&missing).starts_with("mcx: cannot read no-such-file: "), "{}", err(&missing));
}

#[test]
fn folders_are_read_whole_and_nothing_depends_on_their_order() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    write(folder.path(), "a.yaml", &source("10-a", "worker", "storge: {}"));
    write(&folder.path().join("below"), "b.yaml", &source("20-b", "worker", "storge: {}"));
    let name = folder.path().display().to_string();
    assert_eq!(err(&validate(&["-f", &name])), "1 error\n");
    let first = validate(&["-R", "-f", &name]);
    assert_eq!(err(&first), "2 errors\n");
    let (a, b) = (format!("{name}/a.yaml"), format!("{name}/below/b.yaml"));
    let turned = validate(&["-f", &b, "-f", &a]);
    assert_eq!((out(&turned), code(&turned)), (out(&first), 1));
}
