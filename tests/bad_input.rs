//! What people get wrong: each bad input gives a one-line error with object, field path, line and column, exit code 1, and
//! never a panic; and what only looks wrong is accepted.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::piped;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Output;

/// `mcx render --pool worker -f -` on these bytes.
fn render(input: &[u8]) -> Output {
    piped(&["render", "--pool", "worker", "-f", "-", "-o", "name"], input)
}

/// A source whose config begins with these ten lines; `body` follows from line 11 on, indented by four.
fn source(body: &str) -> String {
    let mut text = format!("{HEAD}      version: 3.4.0\n");
    for line in body.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}

const HEAD: &str = "apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 99-x
  labels:
    machineconfiguration.alauda.io/role: worker
spec:
  config:
    ignition:
";

/// A source with one file: its fields, from line 13 on.
fn file(fields: &str) -> String {
    let mut body = "storage:\n  files:\n".to_owned();
    for (i, line) in fields.lines().enumerate() {
        let _ = writeln!(body, "  {} {line}", if i == 0 { "-" } else { " " });
    }
    source(&body)
}

fn unit(fields: &str) -> String {
    file(fields).replace("    storage:\n      files:", "    systemd:\n      units:")
}

fn user(fields: &str) -> String {
    file(fields).replace("    storage:\n      files:", "    passwd:\n      users:")
}

fn contents(source: &str) -> String {
    file(&format!("path: /etc/x\ncontents:\n  source: \"{source}\""))
}

/// Gzip, in base64.
fn gzip(bytes: &[u8]) -> String {
    base64(&gzip_bytes(bytes))
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn gzip_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Gzip of 2 GiB of zeros: gzip allows to put streams behind each other, so one is made and repeated.
fn two_gibibytes() -> String {
    base64(&gzip_bytes(&vec![0; 8 << 20]).repeat(256))
}

/// Name of the row, input, rule, line, field path in `MachineConfig/99-x` where it has that name, a part of the message.
type Row<'a> = (&'a str, String, &'a str, &'a str, &'a str, &'a str);

/// Checks that the row's error is there, alone among errors, and in the form that is promised.
fn check((name, input, rule, place, path, text): &Row) {
    let output = render(input.as_bytes());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
    assert!(output.stdout.is_empty(), "{name}: nothing is rendered beside an error");
    let errors: Vec<&str> = stderr.lines().filter(|l| l.contains(" error: ")).collect();
    assert_eq!(errors.len(), 1, "{name}: {stderr}");
    let error = errors[0];
    let (at, _) = error.split_once(" error: ").unwrap();
    assert!(at.starts_with(&format!("-:{place}")), "{name}: {error}, expected in line {place}");
    assert_eq!(at.matches(':').count(), 3, "{name}: {error}, expected FILE:LINE:COLUMN:");
    if !path.is_empty() {
        let object = "MachineConfig/99-x";
        assert!(error.contains(&format!("{object}: {path}: ")), "{name}: {error}, expected {path}");
    }
    assert!(error.ends_with(&format!("[{rule}]")), "{name}: {error}, expected [{rule}]");
    assert!(error.contains(text), "{name}: {error}, expected {text:?}");
    assert!(stderr.lines().all(|l| l.contains("error: ") || l.contains("warning: ")), "{name}: {stderr}");
}

fn rows(list: &[Row]) {
    list.iter().for_each(check);
}

const FILE: &str = "spec.config.storage.files[0]";
const UNIT: &str = "spec.config.systemd.units[0]";
const USER: &str = "spec.config.passwd.users[0]";

#[test]
fn texts_that_are_no_objects() {
    let bomb = {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..12 {
            let list = vec![format!("*a{}", i - 1); 10].join(", ");
            let _ = writeln!(text, "a{i}: &a{i} [{list}]");
        }
        text
    };
    rows(&[
        ("not YAML", "a: [1\nb: 2\n".to_owned(), "yaml", "", "", ""),
        ("a tab", "a:\n\tb: 1\n".to_owned(), "yaml", "2:", "", ""),
        ("an undefined alias", "a: *b\n".to_owned(), "yaml", "1:", "", ""),
        ("an alias bomb", bomb, "yaml", "", "", ""),
        ("a list", "- a\n- b\n".to_owned(), "not-an-object", "1:", "", "is a list"),
        ("a word", "hello\n".to_owned(), "not-an-object", "1:", "", "single value"),
        ("no kind", "\na: 1\n".to_owned(), "not-an-object", "2:", "", "no kind"),
    ]);
    let output = render(b"kind: \xff\n");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.starts_with("-:1:7: error: is not UTF-8 text"), "{stderr}");
}

#[test]
fn fifty_megabytes_of_yaml() {
    let line = "a: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n";
    let output = render(line.repeat((50 << 20) / line.len()).as_bytes());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("-: error: is larger than 32 MiB; split it"), "{stderr}");
}

#[test]
fn objects_of_the_wrong_kind() {
    let with = |from: &str, to: &str| source("").replace(from, to);
    rows(&[
        ("a slip in the kind", with("kind: MachineConfig", "kind: MachineConfg"), "kind", "2:", "", "did you mean MachineConfig?"),
        ("OpenShift", with("alauda.io/v1alpha1", "openshift.io/v1"), "api-version", "1:", "apiVersion", "alauda.io/v1alpha1"),
        ("v1", with("machineconfiguration.alauda.io/v1alpha1", "v1"), "api-version", "1:", "apiVersion", "found `v1`"),
        ("another version", with("v1alpha1", "v1"), "api-version", "1:", "apiVersion", "alauda.io/v1`"),
        ("no version", with("apiVersion: machineconfiguration.alauda.io/v1alpha1\n", ""), "api-version", "", "apiVersion", "is missing"),
        ("no name", with("  name: 99-x\n", ""), "object-name", "", "", "metadata.name: is missing"),
        ("a name that is none", with("99-x", "99_X"), "object-name", "4:", "", "`99_X`"),
        ("spec misspelled", with("spec:", "sepc:"), "unknown-key", "7:", "sepc", "did you mean `spec`?"),
        ("config misspelled", with("  config:", "  confg:"), "unknown-key", "8:", "spec.confg", "did you mean `config`?"),
        ("labels that are no texts", with("role: worker", "role: 1"), "field-type", "6:", "", "found a number, expected a string"),
        ("kernel arguments", format!("{}  kernelArguments: [quiet]\n", source("")), "kernel-arguments", "11:", "spec.kernelArguments", "not supported yet"),
        ("a number as kernel argument", format!("{}  kernelArguments: [1]\n", source("")), "field-type", "11:", "spec.kernelArguments[0]", ""),
        ("config is a text", "apiVersion: machineconfiguration.alauda.io/v1alpha1\nkind: MachineConfig\nmetadata: {name: 99-x, labels: {machineconfiguration.alauda.io/role: worker}}\nspec: {config: x}\n".to_owned(), "field-type", "4:", "spec.config", "expected an object"),
    ]);
}

#[test]
fn two_objects_of_one_name_are_named_with_both_places() {
    let text = format!("{}---\n{}", source(""), source(""));
    let output = render(text.as_bytes());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("-:15:3: error: MachineConfig/99-x: metadata.name: is there already, in -:1; keep one"),
        "{stderr}"
    );
}

#[test]
fn versions_of_ignition() {
    let version = |v: &str| format!("{HEAD}      version: {v}\n");
    let at = "spec.config.ignition.version";
    rows(&[
        ("3.2.0", version("3.2.0"), "ignition-version", "10:", at, "write version: 3.4.0"),
        ("3.5.0", version("3.5.0"), "ignition-version", "10:", at, "write version: 3.4.0"),
        ("2.2.0", version("2.2.0"), "ignition-version", "10:", at, "convert the config"),
        ("3.4", version("3.4"), "ignition-version", "10:", at, "found 3.4, expected the string 3.4.0"),
        ("none", HEAD.replace("    ignition:\n", "    storage: {}\n"), "ignition-version", "", at, "is missing"),
        ("empty", version("''"), "ignition-version", "10:", at, "found ``"),
    ]);
}

#[test]
fn modes() {
    let mode = |m: &str| file(&format!("path: /etc/x\nmode: {m}"));
    let at = format!("{FILE}.mode");
    rows(&[
        ("in quotes", mode("\"0644\""), "field-type", "14:", &at, "without quotes, such as 0o644"),
        ("0o10000", mode("0o10000"), "file-mode", "14:", &at, "found 4096 (0o10000), expected 0 to 0o7777"),
        ("rw-r--r--", mode("rw-r--r--"), "field-type", "14:", &at, "found a string"),
        ("-1", mode("-1"), "file-mode", "14:", &at, "found -1"),
        ("4755", mode("4755"), "file-mode", "14:", &at, "did you mean 0o4755?"),
        ("as git writes it", mode("100644"), "file-mode", "14:", &at, "did you mean 0o644?"),
        // No mode is offered that nobody would write.
        (
            "a digit too many",
            mode("10644"),
            "file-mode",
            "14:",
            &at,
            "0o7777; write permission bits in octal, such as 0o644",
        ),
        ("0o10644", mode("0o10644"), "file-mode", "14:", &at, "0o7777; write permission bits in octal, such as 0o644"),
        ("a fraction", mode("420.5"), "field-type", "14:", &at, "a fraction"),
        ("very large", mode("99999999999999999999999"), "field-type", "14:", &at, ""),
        ("true", mode("yes"), "field-type", "14:", &at, "true or false"),
        ("a list", mode("[420]"), "field-type", "14:", &at, "found a list"),
    ]);
}

#[test]
fn paths() {
    let path = |p: &str| file(&format!("path: {p}"));
    let at = format!("{FILE}.path");
    rows(&[
        ("relative", path("etc/x"), "file-path", "13:", &at, "not absolute"),
        ("empty", path("''"), "file-path", "13:", &at, "is missing"),
        ("absent", file("mode: 420"), "file-path", "", &at, "is missing"),
        ("two slashes", path("/etc//x"), "file-path", "13:", &at, "not clean"),
        ("a slash at the end", path("/etc/x/"), "file-path", "13:", &at, "not clean"),
        ("a dot", path("/etc/./x"), "file-path", "13:", &at, "not clean"),
        ("..", path("/etc/../x/y"), "file-path", "13:", &at, "not clean"),
        ("the root", path("/"), "file-root", "13:", &at, "directly in /"),
        ("in the root", path("/x"), "file-root", "13:", &at, "directly in /"),
        ("NUL", path("\"/etc/a\\0b\""), "file-path", "13:", &at, "control character"),
        ("a line break", path("\"/etc/a\\nb\""), "file-path", "13:", &at, "control character"),
        ("a number", path("1"), "field-type", "13:", &at, "found a number"),
        ("a long name", path(&format!("/etc/{}", "x".repeat(256))), "file-path", "13:", &at, "too long"),
        ("/run", path("/run/x"), "file-volatile", "13:", &at, "all of /run"),
        ("/var/run", path("/var/run/x"), "file-volatile", "13:", &at, "all of /var/run"),
        ("/tmp", path("/tmp/x"), "file-volatile", "13:", &at, "all of /tmp"),
        ("/proc", path("/proc/sys/x"), "file-volatile", "13:", &at, "all of /proc"),
        ("/sys", path("/sys/x"), "file-volatile", "13:", &at, "all of /sys"),
        ("/dev", path("/dev/x"), "file-volatile", "13:", &at, "all of /dev"),
        (
            "the force file",
            path("/run/machine-config-daemon-force"),
            "file-state",
            "13:",
            &at,
            "apply the config again",
        ),
        ("the state of mcx", path("/var/lib/mcx/current.json"), "file-state", "13:", &at, "belongs to mcx"),
        ("the state folder", path("/var/lib/mcx"), "file-state", "13:", &at, "belongs to mcx"),
        (
            "twice",
            source("storage:\n  files:\n  - path: /etc/x\n  - path: /etc/x"),
            "duplicate-item",
            "14:",
            "spec.config.storage.files[1].path",
            "already, at spec.config.storage.files[0].path",
        ),
        (
            "below a file",
            source("storage:\n  files:\n  - path: /etc/x/y/z\n  - path: /etc/x"),
            "file-parent",
            "13:",
            "spec.config.storage.files[0].path",
            "`/etc/x/y/z` lies below `/etc/x`",
        ),
        (
            "a unit file",
            source(
                "storage:\n  files:\n  - path: /etc/systemd/system/a.service\nsystemd:\n  units:\n  - {name: a.service, contents: \"[Unit]\\n\"}",
            ),
            "unit-file",
            "13:",
            "spec.config.storage.files[0].path",
            "unit a.service",
        ),
        (
            "a drop-in",
            source(
                "storage:\n  files:\n  - path: /etc/systemd/system/a.service.d/x.conf\nsystemd:\n  units:\n  - {name: a.service, dropins: [{name: x.conf, contents: \"[Unit]\\n\"}]}",
            ),
            "unit-file",
            "13:",
            "spec.config.storage.files[0].path",
            "drop-in a.service/x.conf",
        ),
        (
            "the keys of boot",
            source(
                "storage:\n  files:\n  - path: /home/boot/.ssh/authorized_keys\npasswd:\n  users:\n  - {name: boot, sshAuthorizedKeys: [ssh-rsa x]}",
            ),
            "keys-file",
            "13:",
            "spec.config.storage.files[0].path",
            "keys of boot",
        ),
        (
            "a file where a folder of drop-ins must be",
            source(
                "storage:\n  files:\n  - path: /etc/systemd/system/a.service.d\nsystemd:\n  units:\n  - {name: a.service, dropins: [{name: x.conf, contents: \"[Unit]\\n\"}]}",
            ),
            "file-parent",
            "16:",
            "spec.config.systemd.units[0].name",
            "which is a file",
        ),
    ]);
}

#[test]
fn owners() {
    let owner = |text: &str| file(&format!("path: /etc/x\nuser: {text}"));
    rows(&[
        ("negative", owner("{id: -1}"), "file-owner", "14:", &format!("{FILE}.user.id"), "-1"),
        ("the one that means none", owner("{id: 4294967295}"), "file-owner", "14:", &format!("{FILE}.user.id"), ""),
        ("both", owner("{id: 0, name: root}"), "file-owner", "14:", &format!("{FILE}.user"), "id and a user name"),
        ("a name that is none", owner("{name: 'a:b'}"), "file-owner", "14:", &format!("{FILE}.user.name"), "`a:b`"),
    ]);
}

#[test]
fn contents_that_cannot_be_decoded() {
    let at = format!("{FILE}.contents.source");
    let gz = |text: &str| file(&format!("path: /etc/x\ncontents:\n  compression: gzip\n  source: \"{text}\""));
    let two_gibibytes = two_gibibytes();
    let secret = "c2VjcmV0";
    rows(&[
        ("http", contents("http://x.example/y"), "contents-source", "15:", &at, "found http:, expected a data: URL"),
        ("s3", contents("s3://x/y"), "contents-source", "15:", &at, "found s3:"),
        ("empty", contents(""), "contents-source", "15:", &at, "write source: 'data:,'"),
        ("a text", contents("hello world"), "contents-source", "15:", &at, "expected a data: URL"),
        ("broken base64", contents(&format!("data:;base64,{secret}*")), "contents", "15:", &at, ""),
        ("base64 without padding", contents("data:;base64,eA"), "contents", "15:", &at, ""),
        ("a bad escape", contents("data:,%zz"), "contents", "15:", &at, ""),
        ("no comma", contents("data:text/plain"), "contents", "15:", &at, ""),
        ("gzip that is none", gz("data:,hello"), "contents", "16:", &at, "gzip"),
        ("gzip cut short", gz(&format!("data:;base64,{}", &gzip(&[b'x'; 5000])[..20])), "contents", "16:", &at, "gzip"),
        ("gzip of 2 GiB", gz(&format!("data:;base64,{two_gibibytes}")), "contents-size", "16:", &at, "exceed"),
        (
            "zstd",
            file("path: /etc/x\ncontents: {compression: zstd, source: 'data:,x'}"),
            "contents",
            "14:",
            &format!("{FILE}.contents.compression"),
            "is not gzip",
        ),
        (
            "another digest",
            file(&format!(
                "path: /etc/x\ncontents:\n  source: 'data:,x'\n  verification: {{hash: sha256-{}}}",
                "0".repeat(64)
            )),
            "contents-hash",
            "16:",
            &format!("{FILE}.contents.verification.hash"),
            "another digest",
        ),
        (
            "a digest that is none",
            file("path: /etc/x\ncontents:\n  source: 'data:,x'\n  verification: {hash: md5-0}"),
            "ignition",
            "16:",
            &format!("{FILE}.contents.verification.hash"),
            "",
        ),
        (
            "headers",
            file("path: /etc/x\ncontents: {source: 'data:,x', httpHeaders: [{name: a, value: b}]}"),
            "unsupported",
            "14:",
            &format!("{FILE}.contents.httpHeaders"),
            "nothing is fetched",
        ),
        (
            "append",
            file("path: /etc/x\nappend: [{source: 'data:,x'}]"),
            "unsupported",
            "14:",
            &format!("{FILE}.append"),
            "write the whole file",
        ),
    ]);
    // Content never gets into a message.
    let output = render(contents(&format!("data:;base64,{secret}*")).as_bytes());
    assert!(!String::from_utf8(output.stderr).unwrap().contains(secret));
}

#[test]
fn units() {
    let name = |n: &str| unit(&format!("name: {n}"));
    let at = format!("{UNIT}.name");
    let dropin = |n: &str| unit(&format!("name: a.service\ndropins: [{{name: {n}, contents: \"[Unit]\\n\"}}]"));
    let drop_at = format!("{UNIT}.dropins[0].name");
    rows(&[
        ("no suffix", name("chronyd"), "unit-name", "13:", &at, "write `chronyd.service`"),
        ("another suffix", name("chronyd.servce"), "unit-name", "13:", &at, "does not end in a kind of unit"),
        ("only a suffix", name(".service"), "unit-name", "13:", &at, "no name before its suffix"),
        ("a path", name("../a.service"), "unit-name", "13:", &at, "holds '/'"),
        ("a blank", name("a b.service"), "unit-name", "13:", &at, "holds ' '"),
        ("no name", unit("enabled: true"), "unit-name", "", &at, "is missing"),
        ("a long name", name(&format!("{}.service", "x".repeat(256))), "unit-name", "13:", &at, "at most 255"),
        (
            "twice",
            source("systemd:\n  units:\n  - name: a.service\n  - name: a.service"),
            "duplicate-item",
            "14:",
            "spec.config.systemd.units[1].name",
            "already",
        ),
        ("a drop-in without .conf", dropin("x"), "dropin-name", "14:", &drop_at, ".conf"),
        ("a drop-in elsewhere", dropin("../x.conf"), "dropin-name", "14:", &drop_at, "not the name of a file"),
        ("a hidden drop-in", dropin(".x.conf"), "dropin-name", "14:", &drop_at, "begins with a dot"),
        (
            "a drop-in twice",
            unit("name: a.service\ndropins: [{name: x.conf}, {name: x.conf}]"),
            "duplicate-item",
            "14:",
            &format!("{UNIT}.dropins[1].name"),
            "already",
        ),
        (
            "a body that is none",
            unit("name: a.service\ncontents: \"[Unit\\n\""),
            "unit-syntax",
            "14:",
            &format!("{UNIT}.contents"),
            "line 1: a section name does not end",
        ),
        (
            "a section over two lines, which only systemd refuses",
            unit("name: a.service\ncontents: \"[Unit]\\n[Serv\\nice]\\n\""),
            "unit-syntax",
            "14:",
            &format!("{UNIT}.contents"),
            "line 2: a section name does not end",
        ),
        (
            "a drop-in that is none",
            unit("name: a.service\ndropins: [{name: x.conf, contents: \"[Unit]\\nfoo\\n\"}]"),
            "unit-syntax",
            "14:",
            &format!("{UNIT}.dropins[0].contents"),
            "line 2: an option has no equals sign",
        ),
        (
            "NUL in a body",
            unit("name: a.service\ncontents: \"[Unit]\\nA=\\0\\n\""),
            "unit-body",
            "14:",
            &format!("{UNIT}.contents"),
            "NUL",
        ),
        (
            "enabled and masked",
            unit("name: a.service\nenabled: true\nmask: true"),
            "unit-masked",
            "14:",
            &format!("{UNIT}.enabled"),
            "masked",
        ),
        (
            "a template enabled",
            unit("name: a@.service\nenabled: true\ncontents: \"[Install]\\nWantedBy=x.target\\n\""),
            "unit-template",
            "14:",
            &format!("{UNIT}.enabled"),
            "DefaultInstance",
        ),
        (
            "enabled is a text",
            unit("name: a.service\nenabled: \"true\""),
            "field-type",
            "14:",
            &format!("{UNIT}.enabled"),
            "expected true or false",
        ),
    ]);
}

#[test]
fn users_and_keys() {
    let key = |k: &str| user(&format!("name: boot\nsshAuthorizedKeys:\n- {k}"));
    let at = format!("{USER}.sshAuthorizedKeys[0]");
    rows(&[
        ("another user", user("name: core"), "user", "13:", &format!("{USER}.name"), "found `core`, expected boot"),
        (
            "another user in the guide's spelling",
            user("user: root"),
            "user",
            "13:",
            &format!("{USER}.user"),
            "found `root`",
        ),
        ("both, and they differ", user("name: boot\nuser: core"), "user", "13:", USER, "keep name: boot"),
        ("no name", user("sshAuthorizedKeys: []"), "user", "", &format!("{USER}.name"), "is missing"),
        (
            "a password",
            user("name: boot\npasswordHash: x"),
            "user-field",
            "14:",
            &format!("{USER}.passwordHash"),
            "only sshAuthorizedKeys",
        ),
        ("groups of boot", user("name: boot\ngroups: [wheel]"), "user-field", "14:", &format!("{USER}.groups"), ""),
        (
            "boot twice",
            source("passwd:\n  users:\n  - name: boot\n  - user: boot"),
            "duplicate-item",
            "14:",
            "spec.config.passwd.users[1]",
            "already",
        ),
        (
            "a newline inside",
            key("\"ssh-rsa AAAA\\nssh-rsa BBBB\""),
            "key-line",
            "15:",
            &at,
            "each key as its own list item",
        ),
        ("a newline at the end", key("\"ssh-rsa AAAA\\n\""), "key-line", "15:", &at, "write |- for |"),
        ("NUL", key("\"ssh-rsa AAAA\\0\""), "key-line", "15:", &at, ""),
        ("empty", key("''"), "key-line", "15:", &at, "is empty"),
        (
            "twice",
            user("name: boot\nsshAuthorizedKeys: [ssh-rsa x, ssh-rsa x]"),
            "duplicate-item",
            "14:",
            &format!("{USER}.sshAuthorizedKeys[1]"),
            "same key",
        ),
        (
            "one key that is no list",
            user("name: boot\nsshAuthorizedKeys: ssh-rsa x"),
            "field-type",
            "14:",
            &format!("{USER}.sshAuthorizedKeys"),
            "expected a list",
        ),
        (
            "the key misspelled",
            user("name: boot\nsshAuthorisedKeys: []"),
            "unknown-key",
            "14:",
            &format!("{USER}.sshAuthorisedKeys"),
            "did you mean `sshAuthorizedKeys`?",
        ),
    ]);
}

#[test]
fn sections_that_are_not_applied() {
    // refused one by one, never ignored.
    for (path, body) in [
        ("storage.directories", "storage: {directories: [{path: /etc/x}]}"),
        ("storage.links", "storage: {links: [{path: /etc/x, target: /y}]}"),
        ("storage.disks", "storage: {disks: [{device: /dev/sda}]}"),
        ("storage.raid", "storage: {raid: [{name: a, level: raid1, devices: [/dev/sda]}]}"),
        ("storage.filesystems", "storage: {filesystems: [{device: /dev/sda, format: ext4}]}"),
        ("storage.luks", "storage: {luks: [{name: a, device: /dev/sda}]}"),
        ("passwd.groups", "passwd: {groups: [{name: a}]}"),
        ("kernelArguments", "kernelArguments: {shouldExist: [quiet]}"),
        ("ignition.config", "  config: {merge: [{source: 'data:,x'}]}"),
        ("ignition.security", "  security: {tls: {certificateAuthorities: [{source: 'data:,x'}]}}"),
        ("ignition.proxy", "  proxy: {httpProxy: 'http://x'}"),
        ("ignition.timeouts", "  timeouts: {httpTotal: 0}"),
    ] {
        let path = format!("spec.config.{path}");
        check(&(&path, source(body), "unsupported", "11:", &path, "is not supported; "));
    }
}

#[test]
fn unknown_keys() {
    for (body, place, path, text) in [
        ("storge: {}", "11:", "spec.config.storge", "did you mean `storage`?"),
        ("storage: {file: []}", "11:", "spec.config.storage.file", "did you mean `files`?"),
        ("systemd: {unit: []}", "11:", "spec.config.systemd.unit", "did you mean `units`?"),
        ("$schema: x", "11:", "spec.config.$schema", "known here: ignition, "),
        (
            "storage: {files: [{path: /etc/x, permissions: 1}]}",
            "11:",
            &format!("{FILE}.permissions"),
            "known here: path, mode",
        ),
        ("storage: {files: [{path: /etc/x, Mode: 1}]}", "11:", &format!("{FILE}.Mode"), "did you mean `mode`?"),
        (
            "storage: {files: [{path: /etc/x, contents: {inline: x}}]}",
            "11:",
            &format!("{FILE}.contents.inline"),
            "known here: source",
        ),
    ] {
        check(&(body, source(body), "unknown-key", place, path, text));
    }
}

#[test]
fn all_slips_of_a_file_are_shown_at_once_from_top_to_bottom() {
    let text = file("path: etc/x\nmode: \"0644\"\nconents: {}\ncontents: {source: 'http://x'}");
    let stderr = String::from_utf8(render(text.as_bytes()).stderr).unwrap();
    let places: Vec<&str> = stderr.lines().map(|l| l.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["-:13:9", "-:14:9", "-:15:9", "-:16:20"], "{stderr}");
}

#[allow(clippy::too_many_lines, reason = "one table")]
#[test]
fn what_is_legal_is_accepted() {
    let accepted = |name: &str, input: &str| -> (String, String) {
        let output = render(input.as_bytes());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {stderr}");
        (String::from_utf8(output.stdout).unwrap(), stderr)
    };
    // Modes that are one value.
    let mode = |m: &str| file(&format!("path: /etc/x\nmode: {m}\ncontents: {{source: 'data:,x'}}"));
    let (usual, stderr) = accepted("420", &mode("420"));
    assert_eq!(stderr, "");
    for m in ["0644", "0o644", "0x1A4", "420.0"] {
        assert_eq!(accepted(m, &mode(m)), (usual.clone(), String::new()), "{m}");
    }
    assert_eq!(accepted("no mode", &mode("null")).0, usual, "0644 is the default");
    // Accepted with a warning.
    let body = |text: &str| unit(&format!("name: a.service\ncontents: \"{text}\""));
    for (name, input, rule, place) in [
        ("644", mode("644"), "mode-decimal", "14:"),
        ("755", mode("755"), "mode-decimal", "14:"),
        ("setuid", mode("0o4755"), "mode-special", "14:"),
        ("overwrite: false", mode("420\noverwrite: false"), "overwrite", "15:"),
        ("no contents", file("path: /etc/x"), "file-empty", "13:"),
        ("a private key", contents("data:,-----BEGIN%20PRIVATE%20KEY-----"), "secret-readable", ""),
        ("a name without a number", mode("420").replace("99-x", "x"), "source-number", "4:"),
        ("a namespace", mode("420").replace("  name: 99-x", "  name: 99-x\n  namespace: a"), "namespace", "5:"),
        ("a key that is none", user("name: boot\nsshAuthorizedKeys: [ssh-rsa x]"), "key-form", "14:"),
        (
            "enabled without [Install]",
            unit("name: a.service\nenabled: true\ncontents: \"[Unit]\\nDescription=x\\n\""),
            "unit-install",
            "14:",
        ),
        (
            "enabled with an empty [Install]",
            unit("name: a.service\nenabled: true\ncontents: \"[Install]\\nWantedBy=\\n\""),
            "unit-install",
            "14:",
        ),
        (
            "an instance of a template without [Install]",
            source(
                "systemd:\n  units:\n  - {name: a@.service, contents: \"[Unit]\\n\"}\n  - {name: a@b.service, enabled: true}",
            ),
            "unit-install",
            "14:",
        ),
        ("a token", contents("data:,token=abcdef.0123456789abcdef"), "secret-readable", ""),
        ("a password", contents("data:,password=hunter22"), "secret-readable", ""),
        ("a password in a unit", body("[Service]\\nEnvironment=DB_PASSWORD=hunter22\\n"), "secret-readable", "14:"),
        ("a section of another kind", body("[Timer]\\nOnCalendar=daily\\n"), "unit-section", "14:"),
        ("text before the sections", body("Description=x\\n[Unit]\\n"), "unit-outside-section", "14:"),
        ("an assignment of nothing", body("[Unit]\\n=x\\n"), "unit-line", "14:"),
        ("no assignment, which the specification lets pass", body("[Unit]\\nA=b\\\\\\\\\\nfoo\\n"), "unit-line", "14:"),
        ("a key of another section", body("[Unit]\\nExecStart=/bin/true\\n"), "unit-key", "14:"),
        (
            "a key of another section in a drop-in",
            unit("name: a.service\ndropins: [{name: x.conf, contents: \"[Service]\\nAfter=b.service\\n\"}]"),
            "unit-key",
            "14:",
        ),
    ] {
        let (_, stderr) = accepted(name, &input);
        assert_eq!(stderr.lines().count(), 1, "{name}: {stderr}");
        assert!(stderr.starts_with(&format!("-:{place}")) && stderr.contains(" warning: "), "{name}: {stderr}");
        assert!(stderr.contains(&format!("[{rule}]")), "{name}: {stderr}");
    }
    // A private key that only root reads is where it belongs.
    let private = contents("data:,-----BEGIN%20PRIVATE%20KEY-----").replace("path:", "mode: 0o600\n        path:");
    assert_eq!(accepted("a private key of root", &private).1, "");
    // No use of a section.
    let (nothing, _) = accepted("empty config", &source(""));
    for body in [
        "storage: {}",
        "storage: {disks: [], links: [], directories: [], luks: null, raid: [], filesystems: []}",
        "passwd: {}",
        "passwd: {users: [], groups: []}",
        "passwd: {users: [{name: boot}]}",
        "passwd: {users: [{name: boot, groups: [], sshAuthorizedKeys: []}]}",
        "systemd: null",
        "systemd: {units: [{name: a.service}]}",
        "systemd: {units: [{name: a.service, contents: \"\", dropins: []}]}",
        "kernelArguments: {shouldExist: [], shouldNotExist: []}",
        "  config: {}",
        "  proxy: null\n  timeouts: {}",
    ] {
        assert_eq!(accepted(body, &source(body)), (nothing.clone(), String::new()), "{body}");
    }
    let head = "apiVersion: machineconfiguration.alauda.io/v1alpha1\nkind: MachineConfig\nmetadata:\n  name: 99-x\n  labels:\n    machineconfiguration.alauda.io/role: worker\n";
    for spec in [
        "",
        "spec:\n",
        "spec: {}\n",
        "spec: {config: null}\n",
        "spec: {config: {}}\n",
        "spec: {kernelArguments: []}\n",
        "spec: {kernelArguments: null, config: {}}\n",
    ] {
        assert_eq!(accepted(spec, &format!("{head}{spec}")), (nothing.clone(), String::new()), "{spec}");
    }
    // One content in many clothes.
    let (plain, _) = accepted("percent-encoded", &contents("data:,a%20b%2Bc"));
    for url in [
        "data:text/plain,a%20b+c",
        "data:text/plain;charset=utf-8,a%20b+c",
        "data:;base64,YSBiK2M=",
        "data:text/plain;base64,YSBiK2M=",
        "data:application/octet-stream;base64,YSBiK2M=",
    ] {
        assert_eq!(accepted(url, &contents(url)), (plain.clone(), String::new()), "{url}");
    }
    let packed = gzip(b"a b+c");
    let zipped = file(&format!("path: /etc/x\ncontents: {{compression: gzip, source: 'data:;base64,{packed}'}}"));
    assert_eq!(accepted("gzip", &zipped).0, plain);
    // Units and keys.
    let dropin = "name: a.service\nenabled: true\ncontents: \"[Unit]\\n\"\ndropins: [{name: x.conf, contents: \"[Install]\\nWantedBy=a.target\\n\"}]";
    for (name, input) in [
        ("[Install] in a drop-in", unit(dropin)),
        ("enabled, of the operating system", unit("name: a.service\nenabled: true")),
        ("a section for others", body("[X-Mine]\\nfoo=1\\n[Unit]\\nX-Mine=1\\nBrandNewKey=1\\n")),
        ("a comment in a continued line", body("[Service]\\nExecStart=/bin/a \\\\\\n# x=\\n  b=c\\n")),
        ("a variable for a password", body("[Service]\\nExecStart=/bin/a --password=$PASSWORD\\n")),
        ("an instance", unit("name: a@b.service\nenabled: true")),
        ("a template of the vendor", unit("name: a@.service\nenabled: true")),
        ("contents and mask", unit("name: a.service\nmask: true\ncontents: \"[Unit]\\n\"")),
        ("the guide's user", user("user: boot")),
        ("both, the same", user("user: boot\nname: boot")),
        ("yes", unit("name: a.service\nenabled: yes")),
    ] {
        assert_eq!(accepted(name, &input).1, "", "{name}");
    }
    // Around our objects.
    let foreign = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {mode: x}\n";
    for (name, input) in [
        ("foreign kinds", format!("{foreign}---\n{}", source(""))),
        ("empty documents", format!("---\n---\n{}---\n# nothing\n", source(""))),
        (
            "rendered ones",
            format!(
                "{}---\n{}",
                source(""),
                source("storage: {links: [{}]}")
                    .replace("99-x", "rendered-worker-1")
                    .replace("/role: worker", "/rendered: worker")
            ),
        ),
    ] {
        assert_eq!(accepted(name, &input), (nothing.clone(), String::new()), "{name}");
    }
}

#[test]
fn an_empty_input_says_that_nothing_is_selected() {
    for input in ["", "---\n", "# nothing\n"] {
        let output = render(input.as_bytes());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(
            stderr.starts_with("error: MachineConfigPool/worker: spec.machineConfigSelector: selects no source"),
            "{stderr}"
        );
    }
}
