//! The umask of the daemon does not matter. A file of its own: the umask belongs to the whole process.

#![allow(clippy::panic, clippy::unwrap_used, reason = "test code outside of #[test] functions")]

#[path = "support/node_root.rs"]
mod node_root;

use nix::sys::stat::{Mode, umask};
use node_root::{BOOT, Node, config, empty, file};
use serde_json::json;

#[test]
fn r108_l06_modes_are_as_written_under_any_umask() {
    for mask in [0o077, 0o000, 0o777] {
        umask(Mode::from_bits_truncate(0o022));
        let Some(node) = Node::new() else { return };
        umask(Mode::from_bits_truncate(mask));
        let to = config(
            &[file("/etc/x/y/z.conf", "z\n", 0o664), file("/etc/setuid", "x\n", 0o6755)],
            &[json!({"name": "app.service", "dropins": [{"name": "x.conf", "contents": "[Unit]\n"}]})],
            Some(&[1]),
        );
        node.update(&empty(), &to);
        let tree = node.tree();
        umask(Mode::from_bits_truncate(0o022));
        for (path, mode, owner) in [
            ("/etc/x", 0o755, 0),
            ("/etc/x/y", 0o755, 0),
            ("/etc/x/y/z.conf", 0o664, 0),
            ("/etc/setuid", 0o6755, 0),
            ("/etc/systemd/system/app.service.d", 0o755, 0),
            ("/etc/systemd/system/app.service.d/x.conf", 0o644, 0),
            ("/home/boot/.ssh", 0o700, BOOT),
            ("/home/boot/.ssh/authorized_keys", 0o600, BOOT),
        ] {
            let (_, found, uid, _, _) = &tree[path];
            assert_eq!((format!("{found:04o}"), *uid), (format!("{mode:04o}"), owner), "{path} under umask {mask:03o}");
        }
    }
}
