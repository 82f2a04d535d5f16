//! `mcx cat`: exactly the bytes that a node would have, found by each name that an item has.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/command_line.rs"]
mod command_line;

use command_line::{err, mcx, out, piped};
use std::process::Output;

/// `mcx cat` of this input.
fn cat(input: &str, args: &[&str]) -> Output {
    piped(&[&["cat", "-f", "-"], args].concat(), input)
}

fn source(name: &str, role: &str, config: &str) -> String {
    format!(
        "apiVersion: machineconfiguration.alauda.io/v1alpha1\nkind: MachineConfig\n\
         metadata: {{name: {name}, labels: {{machineconfiguration.alauda.io/role: {role}}}}}\n\
         spec: {{config: {{ignition: {{version: 3.4.0}}, {config}}}}}\n---\n"
    )
}

/// Bytes that are no text, bytes that a terminal obeys, gzip, no line end; a unit with a drop-in, others without a text.
fn sources() -> String {
    // `gzip -n` of "packed\n".
    let gzip = "H4sIAAAAAAAC/ytITM5OTeECAEPgQS8HAAAA";
    source(
        "50-files",
        "worker",
        &format!(
            "storage: {{files: [
            {{path: /etc/binary, contents: {{source: 'data:;base64,AP/+Cg=='}}}},
            {{path: /etc/escape, contents: {{source: 'data:,%1b%5b31mred%0d%0a'}}}},
            {{path: /etc/packed, contents: {{compression: gzip, source: 'data:;base64,{gzip}'}}}},
            {{path: /etc/empty, contents: {{source: 'data:,'}}}},
            {{path: /etc/cut, contents: {{source: 'data:,no%20end'}}}}]}}"
        ),
    ) + &source(
        "60-units",
        "worker",
        "systemd: {units: [
            {name: a.service, contents: \"[Unit]\\n\", dropins: [{name: 10-x.conf, contents: \"[Service]\\nNice=1\\n\"}]},
            {name: on.service, enabled: true},
            {name: off.service, mask: true, contents: \"[Unit]\\n\"}]}",
    )
}

#[test]
fn bytes_come_out_as_they_are() {
    for (item, bytes) in [
        ("/etc/binary", &b"\0\xff\xfe\n"[..]),
        ("/etc/escape", b"\x1b[31mred\r\n"),
        ("/etc/packed", b"packed\n"),
        ("/etc/empty", b""),
        ("/etc/cut", b"no end"),
        ("a.service", b"[Unit]\n"),
        ("/etc/systemd/system/a.service", b"[Unit]\n"),
        ("a.service/10-x.conf", b"[Service]\nNice=1\n"),
        ("a.service.d/10-x.conf", b"[Service]\nNice=1\n"),
        ("/etc/systemd/system/a.service.d/10-x.conf", b"[Service]\nNice=1\n"),
    ] {
        let output = cat(&sources(), &[item]);
        assert_eq!(output.status.code(), Some(0), "{item}: {}", err(&output));
        assert_eq!(output.stdout, bytes, "{item}");
        assert_eq!(err(&output), "", "{item}");
    }
}

#[test]
fn the_guide_s_file_is_what_the_guide_says() {
    let output = mcx(&["cat", "-f", "examples", "/etc/chrony.conf"]);
    assert!(output.stdout.starts_with(b"server 0.centos.pool.ntp.org iburst\n"));
    assert!(output.stdout.ends_with(b"logdir /var/log/chrony\n"));
}

#[test]
fn what_has_no_contents_is_an_error_that_says_why() {
    for (item, code, said) in [
        ("/etc/binery", 1, "did you mean /etc/binary?"),
        ("a.servic", 1, "did you mean a.service?"),
        ("a", 1, "did you mean a.service?"),
        ("10-x.conf", 1, "did you mean a.service/10-x.conf?"),
        ("/usr/share/something", 1, "no file, unit or drop-in \"/usr/share/something\" in the config"),
        ("boot", 1, "no file"),
        ("on.service", 1, "unit on.service has no contents"),
        ("off.service", 1, "is masked"),
    ] {
        let output = cat(&sources(), &[item]);
        assert_eq!(output.status.code(), Some(code), "{item}: {}", err(&output));
        assert!(err(&output).contains(said) && err(&output).lines().count() == 1, "{item}: {}", err(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn pools_need_to_be_named_only_where_they_differ() {
    let file = |text: &str| format!("storage: {{files: [{{path: /etc/x, contents: {{source: 'data:,{text}'}}}}]}}");
    let same = source("50-a", "worker", &file("x")) + &source("50-b", "master", &file("x"));
    assert_eq!(cat(&same, &["/etc/x"]).stdout, b"x");
    let differing = source("50-a", "worker", &file("w")) + &source("50-b", "master", &file("m"));
    let output = cat(&differing, &["/etc/x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("master") && err(&output).contains("worker") && err(&output).contains("--pool"));
    assert_eq!(cat(&differing, &["/etc/x", "--pool", "master"]).stdout, b"m");
    let output = cat(&differing, &["/etc/x", "--pool", "infra"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("known here: master, worker"), "{}", err(&output));
    let output = cat(&differing, &["/etc/x", "--pool", "mastr"]);
    assert_eq!(err(&output), "mcx: there is no pool \"mastr\"; did you mean master?\n");
}

#[test]
fn a_rendered_config_is_read_too_and_a_refused_source_is_not() {
    let rendered = mcx(&["render", "--pool", "worker", "-f", "examples"]);
    assert_eq!(cat(out(&rendered), &["boot"]).stdout, b"ssh-rsa <ssh-public-key>\n");
    let output = cat(&source("50-a", "worker", "storage: {files: [{path: etc/x}]}"), &["/etc/x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("[file-path]"), "{}", err(&output));
    assert_eq!(cat("", &["/etc/x"]).status.code(), Some(2), "nothing to look in");
}
