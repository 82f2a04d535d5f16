use super::*;
use crate::render::items::{FileItem, Items};
use crate::render::{Outcome, finding::Severity};
use proptest::prelude::*;

const CHRONY: &str = "server 0.centos.pool.ntp.org iburst\nserver 1.centos.pool.ntp.org iburst\nmakestep 1.0 3\nrtcsync\nlogdir /var/log/chrony\n";

fn file(path: &str, mode: u32, bytes: &[u8]) -> Draft {
    let file = File { path: path.to_owned(), mode, bytes: bytes.to_vec(), user: None, group: None };
    Draft { files: vec![file], ..Draft::default() }
}

/// What a worker would get of the text alone.
fn rendered(yaml: &str) -> Outcome {
    let loaded = load::load(vec![load::Input { name: "-".to_owned(), bytes: yaml.as_bytes().to_vec() }]);
    assert_eq!(loaded.findings, [], "{yaml}");
    render(&pool_of(label::WORKER), &loaded.configs)
}

fn items(yaml: &str) -> Items {
    let outcome = rendered(yaml);
    let rendered = outcome.rendered.unwrap_or_else(|| panic!("{:?}\n{yaml}", outcome.findings));
    rendered.items
}

#[test]
fn a_source_looks_as_if_written_by_hand() {
    let mut draft = file("/etc/chrony.conf", 0o644, CHRONY.as_bytes());
    draft.keys = vec!["ssh-ed25519 AAAA alice@example".to_owned()];
    let unit = draft.unit("chronyd.service");
    unit.enabled = Some(false);
    unit.contents = Some("# ours\n\n[Service]\nExecStart=/usr/sbin/chronyd $OPTIONS\n".to_owned());
    unit.dropins.push(("10-nice.conf".to_owned(), "[Service]\nNice=5\n".to_owned()));
    let expected = "\
apiVersion: machineconfiguration.alauda.io/v1alpha1
kind: MachineConfig
metadata:
  name: 99-worker-chrony
  labels:
    machineconfiguration.alauda.io/role: worker
spec:
  config:
    ignition:
      version: 3.4.0
    passwd:
      users:
        - name: boot
          sshAuthorizedKeys:
            - ssh-ed25519 AAAA alice@example
    storage:
      files:
        - path: /etc/chrony.conf
          mode: 0644
          contents:
            source: \"data:,\\
              server%200.centos.pool.ntp.org%20iburst%0A\\
              server%201.centos.pool.ntp.org%20iburst%0A\\
              makestep%201.0%203%0A\\
              rtcsync%0A\\
              logdir%20/var/log/chrony%0A\"
    systemd:
      units:
        - name: chronyd.service
          enabled: false
          contents: |
            # ours

            [Service]
            ExecStart=/usr/sbin/chronyd $OPTIONS
          dropins:
            - name: 10-nice.conf
              contents: |
                [Service]
                Nice=5
";
    assert_eq!(draft.to_yaml("99-worker-chrony", "worker"), expected);
}

#[test]
fn contents_are_readable_where_that_is_possible_and_short_where_not() {
    let source = |bytes: &[u8]| {
        let yaml = file("/etc/a", 0o600, bytes).to_yaml("99-a", "worker");
        yaml.split_once("contents:\n").unwrap().1.trim().to_owned()
    };
    assert_eq!(source(b""), "source: data:,");
    assert_eq!(source(b"hello\n"), "source: data:,hello%0A");
    assert_eq!(source(b"a\nb\n"), "source: \"data:,\\\n              a%0A\\\n              b%0A\"");
    assert_eq!(source(b"it's/here?a=1&b=2"), "source: \"data:,it's/here?a=1&b=2\"");
    assert_eq!(source(b"\0\x01\xff"), "source: 'data:;base64,AAH/'");
    // Mostly escapes: nobody could read it.
    assert_eq!(source("配置".as_bytes()), "source: 'data:text/plain;base64,6YWN572u'");
    assert_eq!(source(b"{\"a\": \"b\"}"), "source: 'data:text/plain;base64,eyJhIjogImIifQ=='");
    let long = "a line of a long file\n".repeat(400);
    assert!(source(long.as_bytes()).starts_with("compression: gzip\n            source: 'data:;base64,H4sI"));
    // What packing does not help stays as it is.
    let noise =
        std::iter::successors(Some(1_u32), |seed| Some(seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)));
    let noise: Vec<u8> = noise.take(8000).map(|seed| seed.to_be_bytes()[0]).collect();
    assert!(source(&noise).starts_with("source: 'data:;base64,"));
}

#[test]
fn a_file_of_a_tree_becomes_the_item_that_it_is_on_a_node() {
    let mut draft = Draft::default();
    for (path, text) in [
        ("/etc/motd", "hi\n"),
        ("/etc/systemd/system/a.service", "[Service]\nExecStart=/bin/a\n"),
        ("/etc/systemd/system/a.service.d/10-x.conf", "[Service]\nNice=1\n"),
        ("/etc/systemd/system/a.service.d/README", "notes\n"),
        ("/etc/systemd/system/masked.service", ""),
        ("/etc/systemd/system/no-unit.txt", "x\n"),
        ("/usr/local/lib/systemd/system/b.service", "[Unit]\n"),
    ] {
        draft.add(path, 0o640, text.into()).unwrap();
    }
    let files: Vec<&str> = draft.files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(
        files,
        [
            "/etc/motd",
            "/etc/systemd/system/a.service.d/README",
            "/etc/systemd/system/no-unit.txt",
            "/usr/local/lib/systemd/system/b.service"
        ]
    );
    assert_eq!(draft.files[0].mode, 0o640);
    assert_eq!(draft.units.len(), 2);
    assert_eq!(draft.units[0].contents.as_deref(), Some("[Service]\nExecStart=/bin/a\n"));
    assert_eq!(draft.units[0].dropins, [("10-x.conf".to_owned(), "[Service]\nNice=1\n".to_owned())]);
    assert_eq!((draft.units[1].mask, &draft.units[1].contents), (Some(true), &None));
    let error = draft.add("/etc/systemd/system/c.service", 0o644, vec![0xff]).unwrap_err();
    assert_eq!(error.to_string(), "/etc/systemd/system/c.service is not UTF-8 text; systemd reads units as text");
}

#[test]
fn keys_are_lines_and_a_private_one_goes_nowhere() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+0mBGZDVTyS1PY5W2fE0iYQd8E4Gv4bqUu0u3hP0gI";
    assert_eq!(
        keys("k", format!("# mine\n\n {key} a \r\n{key}\n").as_bytes()).unwrap(),
        [format!("{key} a"), key.to_owned()]
    );
    // A file taken by mistake would take the place of all keys.
    let error = keys("k", format!("{key}\npool 2.debian.pool.ntp.org iburst\n").as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "k:2: is no public key; a line is TYPE BASE64 [COMMENT]");
    let private = keys("id", b"-----BEGIN OPENSSH PRIVATE KEY-----\ns3cret\n-----END OPENSSH PRIVATE KEY-----\n");
    let error = private.unwrap_err().to_string();
    assert_eq!(error, "id is a private key; give the .pub file beside it");
    assert!(keys("empty", b"# none\n").unwrap_err().to_string().contains("holds no key"));
}

#[test]
fn a_name_follows_from_what_it_is_made_from() {
    for (of, name) in [
        ("/etc/chrony.conf", "99-worker-chrony"),
        ("chronyd.service", "99-worker-chronyd"),
        ("getty@tty1.service", "99-worker-getty-tty1"),
        ("/etc/sysctl.d/90-Max_Map.conf", "99-worker-90-max-map"),
        ("/etc/.profile", "99-worker-profile"),
        ("/srv/rootfs/", "99-worker-rootfs"),
        ("/", "99-worker-files"),
        ("日", "99-worker-files"),
    ] {
        assert_eq!(default_name("worker", of), name, "{of}");
    }
}

#[test]
fn what_would_be_refused_is_said_by_the_rules_of_validation() {
    for (draft, rule) in [
        (file("etc/motd", 0o644, b""), "file-path"),
        (file("/motd", 0o644, b""), "file-root"),
        (file("/tmp/motd", 0o644, b""), "file-volatile"),
        (file("/etc/motd", 0o10000, b""), "file-mode"),
    ] {
        let found = findings(draft.to_yaml("99-x", "infra"), "infra", &[pool_of("infra")]);
        assert!(found.iter().any(|f| f.rule == rule && f.severity == Severity::Error), "{rule}: {found:?}");
        assert!(found.iter().all(|f| f.file.is_none() && f.line.is_none()), "{found:?}");
    }
    let named = findings(file("/etc/motd", 0o644, b"x").to_yaml("A B", "worker"), "worker", &shipped::pools());
    assert_eq!(named.iter().map(|f| f.rule).collect::<Vec<_>>(), ["object-name"]);
    assert_eq!(findings(file("/etc/motd", 0o644, b"x").to_yaml("99-x", "infra"), "infra", &[pool_of("infra")]), []);
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        "[a-z =/.#%\"'\\\\\n\t-]{0,300}".prop_map(String::into_bytes),
        ".{0,60}".prop_map(String::into_bytes),
        ("[a-z \n]{1,40}", 1_usize..400).prop_map(|(part, times)| part.repeat(times).into_bytes()),
    ]
}

proptest! {
    #[test]
    fn bytes_mode_and_path_come_back_as_they_were_given(
        bytes in bytes(),
        mode in 0_u32..=0o7777,
        path in "/etc(/[a-zA-Z0-9 _.:'\"#%é-]{1,12}x){1,3}",
    ) {
        let yaml = file(&path, mode, &bytes).to_yaml("99-worker-x", "worker");
        let items = items(&yaml);
        let (found, item): (&String, &FileItem) = items.files.iter().next().unwrap();
        prop_assert_eq!(found, &path);
        prop_assert_eq!(item.mode, mode);
        prop_assert_eq!(item.content.decode().unwrap(), bytes);
    }

    #[test]
    fn unit_texts_come_back_as_they_were_given(
        lines in prop::collection::vec("(\\[Service\\]|[A-Z][a-z]{1,8}=[ -~é]{0,20}| *|\t|# .{0,9})", 1..12),
    ) {
        let text = lines.join("\n");
        let mut draft = Draft::default();
        draft.unit("a.service").contents = Some(text.clone());
        draft.unit("a.service").dropins.push(("1.conf".to_owned(), text.clone()));
        let documents = yaml::documents(&draft.to_yaml("99-worker-x", "worker")).unwrap();
        let unit = &documents[0].value["spec"]["config"]["systemd"]["units"][0];
        prop_assert_eq!(&unit["contents"], &serde_json::json!(text));
        prop_assert_eq!(&unit["dropins"][0]["contents"], &serde_json::json!(text));
    }
}
