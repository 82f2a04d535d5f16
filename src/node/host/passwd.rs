//! Users and groups, read from the node's own files: `getpwnam` would ask the container's, and drags in NSS.

/// Most bytes of `passwd` or `group` that are read.
pub(super) const FILE_LIMIT: u64 = 16 << 20;

/// A line of `passwd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Home directory.
    pub home: String,
}

/// The users and groups of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    users: Vec<User>,
    groups: Vec<(String, u32)>,
}

impl Accounts {
    /// Reads the texts of `passwd` and `group`. Lines that are none (comments, NIS marks, damage) are skipped, as the
    /// C library does; of two lines with one name the first counts.
    pub fn parse(passwd: &str, group: &str) -> Self {
        let users = passwd
            .lines()
            .filter_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                let [name, _, uid, gid, _, home, ..] = fields.as_slice() else { return None };
                Some(User {
                    name: plain_name(name)?.to_owned(),
                    uid: uid.parse().ok()?,
                    gid: gid.parse().ok()?,
                    home: (*home).to_owned(),
                })
            })
            .collect();
        let groups = group
            .lines()
            .filter_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                let [name, _, gid, ..] = fields.as_slice() else { return None };
                Some((plain_name(name)?.to_owned(), gid.parse().ok()?))
            })
            .collect();
        Self { users, groups }
    }

    /// The user of this name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// The id of the group of this name.
    pub fn group(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|(known, _)| known == name).map(|(_, gid)| *gid)
    }

    /// A name for a user id, for messages.
    pub fn user_name(&self, uid: u32) -> Option<&str> {
        self.users.iter().find(|user| user.uid == uid).map(|user| user.name.as_str())
    }

    /// A name for a group id, for messages.
    pub fn group_name(&self, gid: u32) -> Option<&str> {
        self.groups.iter().find(|(_, known)| *known == gid).map(|(name, _)| name.as_str())
    }
}

/// `+` and `-` begin NIS lines, `#` a comment.
fn plain_name(name: &str) -> Option<&str> {
    (!name.is_empty() && !name.starts_with(['+', '-', '#'])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_name_counts_and_damage_is_skipped() {
        let accounts = Accounts::parse(
            "root:x:0:0:root:/root:/bin/bash\n# boot:x:1:1::/x:\n+nis:x:5:5::/x:\nboot:x:1000:1001::/home/boot:/bin/sh\n\
             boot:x:1:1::/elsewhere:\nshort:x:1\nbad:x:-1:0::/:\n",
            "root:x:0:\nchrony:x:107:a,b\nchrony:x:9:\nbad\n",
        );
        let boot = accounts.user("boot").unwrap();
        assert_eq!((boot.uid, boot.gid, boot.home.as_str()), (1000, 1001, "/home/boot"));
        assert_eq!(accounts.group("chrony"), Some(107));
        for absent in ["# boot", "+nis", "short", "bad"] {
            assert_eq!(accounts.user(absent), None, "{absent}");
        }
        assert_eq!(accounts.group("bad"), None);
        assert_eq!((accounts.user_name(1000), accounts.group_name(107)), (Some("boot"), Some("chrony")));
    }
}
