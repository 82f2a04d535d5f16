//! Writing a source: from plain files to the YAML of a `MachineConfig` that a person would have written by hand.
//!
//! Which files there are is the command's (`cmd::new`); the YAML is `yaml`'s; what is wrong with the result is said by the
//! same rules as of any other source, since the text is read back and rendered.
//!
//! | file | knows |
//! |---|---|
//! | `contents` | how bytes are best written into a `data:` URL |
//! | `tree` | which item a file of a folder laid out like a root is |
//! | `keys` | the SSH keys in a `.pub` file |
//! | `policy` | the node disruption policy |
//! | `name` | what a source is called when nobody says |

mod contents;
mod keys;
mod name;
mod policy;
mod tree;

pub use keys::keys;
pub use name::default_name;
pub use policy::policy;

use super::finding::Finding;
use super::items::Owner;
use super::{load, nearest, render, select, survey};
use crate::api::{
    API_VERSION, IGNITION_VERSION, MachineConfig, MachineConfigPool, MachineConfigPoolSpec, SSH_USER, label, shipped,
};
use crate::yaml::{self, Form};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// A source that is being written. Items are written in the order in which they are here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// Files.
    pub files: Vec<File>,
    /// Units.
    pub units: Vec<Unit>,
    /// SSH keys of user `boot`, one line each.
    pub keys: Vec<String>,
}

/// A file to be written.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Absolute path on the node.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Owner; none leaves it to the default, root.
    pub user: Option<Owner>,
    /// Group; none leaves it to the default, root.
    pub group: Option<Owner>,
}

/// A unit to be written. Absent fields are left as they are on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// Name, with its suffix.
    pub name: String,
    /// Enabled or disabled.
    pub enabled: Option<bool>,
    /// Masked or not.
    pub mask: Option<bool>,
    /// The unit's own text.
    pub contents: Option<String>,
    /// Drop-ins: file name, text.
    pub dropins: Vec<(String, String)>,
}

/// Why plain files do not make a source. One line, never with content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl std::fmt::Debug for File {
    /// Without the bytes: contents may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({} {:04o}, {} bytes)", self.path, self.mode, self.bytes.len())
    }
}

impl Draft {
    /// The unit of this name; added when it is not there yet.
    pub fn unit(&mut self, name: &str) -> &mut Unit {
        let at = self.units.iter().position(|unit| unit.name == name).unwrap_or_else(|| {
            self.units.push(Unit { name: name.to_owned(), ..Unit::default() });
            self.units.len() - 1
        });
        &mut self.units[at]
    }

    /// The text of a unit or drop-in; `what` names it in the error.
    pub fn unit_text(what: &str, bytes: Vec<u8>) -> Result<String, Error> {
        String::from_utf8(bytes).map_err(|_| Error(format!("{what} is not UTF-8 text; systemd reads units as text")))
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.units.is_empty() && self.keys.is_empty()
    }

    /// The whole document, as YAML.
    pub fn to_yaml(&self, name: &str, role: &str) -> String {
        let labels = Form::Pairs(vec![(label::ROLE.to_owned(), text(role))]);
        yaml::to_hand_written(&Form::Fields(vec![
            ("apiVersion", text(API_VERSION)),
            ("kind", text("MachineConfig")),
            ("metadata", Form::Fields(vec![("name", text(name)), ("labels", labels)])),
            ("spec", Form::Fields(vec![("config", self.config())])),
        ]))
    }

    fn config(&self) -> Form {
        let mut config = vec![("ignition", Form::Fields(vec![("version", text(IGNITION_VERSION))]))];
        if !self.keys.is_empty() {
            let keys = Form::Items(self.keys.iter().map(|key| text(key)).collect());
            let user = Form::Fields(vec![("name", text(SSH_USER)), ("sshAuthorizedKeys", keys)]);
            config.push(("passwd", Form::Fields(vec![("users", Form::Items(vec![user]))])));
        }
        if !self.files.is_empty() {
            let files = Form::Items(self.files.iter().map(File::form).collect());
            config.push(("storage", Form::Fields(vec![("files", files)])));
        }
        if !self.units.is_empty() {
            let units = Form::Items(self.units.iter().map(Unit::form).collect());
            config.push(("systemd", Form::Fields(vec![("units", units)])));
        }
        Form::Fields(config)
    }
}

impl File {
    fn form(&self) -> Form {
        let mut file = vec![("path", text(&self.path)), ("mode", Form::Octal(self.mode))];
        for (field, owner) in [("user", &self.user), ("group", &self.group)] {
            file.extend(owner.as_ref().map(|owner| (field, owned(owner))));
        }
        file.push(("contents", contents::form(&self.bytes)));
        Form::Fields(file)
    }
}

impl Unit {
    fn form(&self) -> Form {
        let mut unit = vec![("name", text(&self.name))];
        unit.extend(self.enabled.map(|flag| ("enabled", Form::Flag(flag))));
        unit.extend(self.mask.map(|flag| ("mask", Form::Flag(flag))));
        unit.extend(self.contents.as_ref().map(|contents| ("contents", text(contents))));
        if !self.dropins.is_empty() {
            let dropin = |(name, contents): &(String, String)| {
                Form::Fields(vec![("name", text(name)), ("contents", text(contents))])
            };
            unit.push(("dropins", Form::Items(self.dropins.iter().map(dropin).collect())));
        }
        Form::Fields(unit)
    }
}

fn text(text: &str) -> Form {
    Form::Text(text.to_owned())
}

fn owned(owner: &Owner) -> Form {
    Form::Fields(vec![match owner {
        Owner::Id(id) => ("id", Form::Number(*id)),
        Owner::Name(name) => ("name", text(name)),
    }])
}

/// What is wrong with a role; none when a label can carry it.
pub fn role_problem(role: &str) -> Option<String> {
    let fits = !role.is_empty() && select::is_label_text(role);
    (!fits).then(|| format!("`{}` is no value of a label; name a pool, such as worker", role.escape_debug()))
}

/// What validation and rendering say of a source for `role`, were it the only one of its pool; and whether one of `pools`
/// takes it, which are those that are known.
pub fn findings(yaml: String, role: &str, pools: &[MachineConfigPool]) -> Vec<Finding> {
    let loaded = load::load(vec![load::Input { name: String::new(), bytes: yaml.into_bytes() }]);
    let configs: &[MachineConfig] = &loaded.configs;
    let mut found = loaded.findings.clone();
    // Of what could not be read nothing more can be said.
    if !loaded.has_errors() {
        let pool = pools.iter().find(|pool| pool.name() == role).cloned().unwrap_or_else(|| pool_of(role));
        found.extend(render(&pool, configs).findings);
        found.extend(survey(std::slice::from_ref(&pool), configs, &[]).lints());
        found.extend(select::unselected(pools, configs).into_iter().map(|finding| unknown_role(finding, role, pools)));
    }
    for finding in &mut found {
        // There is no file yet that one could look at.
        (finding.file, finding.line, finding.column) = (None, None, None);
    }
    found
}

/// There may be a pool in the cluster that is not known here.
fn unknown_role(finding: Finding, role: &str, pools: &[MachineConfigPool]) -> Finding {
    let names: Vec<&str> = pools.iter().map(MachineConfigPool::name).collect();
    let message = format!("only a pool that selects role {role} takes it, and {} do not", names.join(", "));
    let help = nearest::hint(role, names).unwrap_or_else(|| "give the file with its pool by -f".to_owned());
    Finding { message, help, ..finding }
}

/// The pool that takes sources of this role: a shipped one, or a custom one.
fn pool_of(role: &str) -> MachineConfigPool {
    if let Some(pool) = shipped::pools().into_iter().find(|pool| pool.name() == role) {
        return pool;
    }
    let either = LabelSelectorRequirement {
        key: label::ROLE.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![label::WORKER.to_owned(), role.to_owned()]),
    };
    MachineConfigPool::new(
        role,
        MachineConfigPoolSpec {
            machine_config_selector: Some(LabelSelector {
                match_expressions: Some(vec![either]),
                ..LabelSelector::default()
            }),
            ..MachineConfigPoolSpec::default()
        },
    )
}

#[cfg(test)]
mod tests;
