//! Which file system a path is on: read from this process's own mount table, since the node's root is part of it.

use std::io;

/// A line of `mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted, as this process sees it.
    pub point: String,
    /// `ext4`, `tmpfs`, …
    pub fstype: String,
}

/// The mount table, later mounts last.
#[derive(Debug, Clone, Default)]
pub struct Mounts(Vec<Mount>);

/// File systems that are empty after a reboot, or that hold no files of anybody.
const VOLATILE: [&str; 11] =
    ["tmpfs", "ramfs", "devtmpfs", "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs"];

impl Mounts {
    /// Reads the table.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string("/proc/self/mountinfo")?))
    }

    /// From the text of `mountinfo`; lines that are none are skipped.
    pub fn parse(text: &str) -> Self {
        Self(
            text.lines()
                .filter_map(|line| {
                    let point = line.split(' ').nth(4)?;
                    let (_, end) = line.split_once(" - ")?;
                    Some(Mount { point: unescape(point), fstype: end.split(' ').next()?.to_owned() })
                })
                .collect(),
        )
    }

    /// The mount that `path` (absolute, without links) is on; of several on one point the last, which hides the others.
    pub fn of(&self, path: &str) -> Option<&Mount> {
        self.0.iter().filter(|mount| is_within(path, &mount.point)).max_by_key(|mount| mount.point.len())
    }

    /// Whether something is mounted on exactly this path.
    pub fn is_point(&self, path: &str) -> bool {
        self.0.iter().any(|mount| mount.point == path)
    }
}

impl Mount {
    /// Whether what is written here is gone at the next boot.
    pub fn is_volatile(&self) -> bool {
        VOLATILE.contains(&self.fstype.as_str())
    }
}

fn is_within(path: &str, point: &str) -> bool {
    point == "/" || path.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `\040` is a space, and so on.
fn unescape(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'\\' && tail.len() >= 3)
            .then(|| std::str::from_utf8(&tail[..3]).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok()))
            .flatten();
        if let Some(code) = code {
            bytes.push(code);
            rest = &tail[3..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_and_last_mount_holds_a_path() {
        let mounts = Mounts::parse(
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /run rw shared:3 - tmpfs tmpfs rw\n3 1 8:2 / /a\\040b rw - xfs /dev/b rw\n\
             4 1 8:3 / /etc/hosts rw - ext4 /dev/c rw\ndamaged\n5 1 0:6 / /a\\040b rw - tmpfs none rw\n",
        );
        for (path, fstype) in
            [("/etc/x", "ext4"), ("/run/x", "tmpfs"), ("/runner", "ext4"), ("/a b/c", "tmpfs"), ("/", "ext4")]
        {
            assert_eq!(mounts.of(path).unwrap().fstype, fstype, "{path}");
        }
        assert!(mounts.is_point("/etc/hosts") && !mounts.is_point("/etc"));
        assert!(mounts.of("/run/x").unwrap().is_volatile() && !mounts.of("/etc/x").unwrap().is_volatile());
    }
}
