//! A node's root with the programs of this machine, as far as a command in the root needs them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::node_root::Node;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::{Path, PathBuf};

/// A mount that goes with the test.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Mounts them. Must go before the node does.
pub(crate) fn of_this_machine(node: &Node) -> Vec<Mounted> {
    let mut mounts = Vec::new();
    for dir in ["/usr", "/bin", "/lib", "/lib64"].into_iter().filter(|dir| Path::new(dir).exists()) {
        std::fs::create_dir_all(node.at(dir)).unwrap();
        mount(Some(Path::new(dir)), &node.at(dir), None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        mounts.insert(0, Mounted(node.at(dir)));
        // What is mounted below it must not show on the machine itself.
        mount(None::<&str>, &node.at(dir), None::<&str>, MsFlags::MS_PRIVATE, None::<&str>).unwrap();
    }
    mounts
}

/// Over these, `systemctl` as a shell script. Must go before them.
pub(crate) fn systemctl(node: &Node, script: &str) -> Mounted {
    let first_in_path = node.at("/usr/local/sbin");
    mount(Some("tmpfs"), &first_in_path, Some("tmpfs"), MsFlags::empty(), Some("size=1m")).unwrap();
    node.write("/usr/local/sbin/systemctl", &format!("#!/bin/sh\n{script}\n"), 0o755);
    Mounted(first_in_path)
}
