//! `mcx new`: the YAML of a MachineConfig, made from plain files; and of the policy that says what it costs.

mod policy;
mod read;

pub use policy::PolicyArgs;

use super::{input, print};
use crate::api::label;
use crate::render::author::{self, Draft, File};
use crate::render::finding::{Finding, Severity};
use crate::render::items::Owner;
use crate::render::load;
use crate::render::mode;
use anyhow::bail;
use clap::{ArgGroup, Subcommand};
use read::Plain;
use std::path::PathBuf;
use std::process::ExitCode;

/// Permission bits of a file whose bytes come from standard input.
const MODE_OF_STDIN: u32 = 0o644;

/// Flags of `mcx new`.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
    mcx new file --path /etc/chrony.conf --from chrony.conf --name 99-worker-chrony\n  \
    mcx new unit chronyd.service --disable\n  \
    mcx new ssh --key ~/.ssh/id_ed25519.pub --role master --role worker\n  \
    mcx new tree rootfs/ | mcx render --pool worker -f -\n  \
    mcx new policy --path /etc/chrony.conf --restart chronyd.service\n\n\
    The MachineConfig goes to standard output, what is to be said of it to standard error.\n\
    Exit codes: 0 written, 1 it would be refused, 2 could not do it."
)]
pub struct Args {
    /// What it is made from
    #[command(subcommand)]
    pub from: From,
}

/// What a MachineConfig is made from.
#[derive(Debug, Subcommand)]
pub enum From {
    /// A file on the nodes
    File(FileArgs),
    /// A systemd unit: its text, whether it is enabled or masked, or both
    Unit(UnitArgs),
    /// A drop-in of a systemd unit
    Dropin(DropinArgs),
    /// SSH keys of user boot
    Ssh(SshArgs),
    /// All files of a folder that is laid out like a root
    Tree(TreeArgs),
    /// What a change of a file or unit costs a node
    Policy(PolicyArgs),
}

/// Whom it is for, and what it is called.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Target {
    /// Pool whose nodes get it; given more than once, one MachineConfig for each
    #[arg(long, value_name = "POOL", default_value = label::WORKER)]
    pub role: Vec<String>,
    /// File or folder with pools, in which --role is looked up beside master and worker; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR")]
    pub pools: Vec<PathBuf>,
    /// Name of the MachineConfig [default: 99-ROLE-NAME, after what it is made from]
    #[arg(long)]
    pub name: Option<String>,
}

/// Flags of `mcx new file`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    mcx new file --path /etc/chrony.conf --from chrony.conf\n  \
    mcx new file --path /etc/app/token --from - --mode 0600 --user app <token\n  \
    mcx new file --path /etc/motd --from motd --role worker --name 50-worker-motd > motd.yaml\n\n\
    A change of a file restarts nothing unless a policy says so: mcx new policy --path PATH --restart UNIT.")]
pub struct FileArgs {
    /// Where it is on the nodes
    #[arg(long)]
    pub path: String,
    /// File with the contents, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub from: PathBuf,
    /// Permission bits in octal, such as 0600 [default: those of the file; 0644 from standard input]
    #[arg(long, value_parser = mode::octal)]
    pub mode: Option<u32>,
    /// Owner on the nodes [default: root]
    #[arg(long, value_name = "NAME|ID")]
    pub user: Option<String>,
    /// Group on the nodes [default: root]
    #[arg(long, value_name = "NAME|ID")]
    pub group: Option<String>,
    /// Whom it is for
    #[command(flatten)]
    pub target: Target,
}

/// Flags of `mcx new unit`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(
    group = ArgGroup::new("what").args(["from", "enable", "disable", "mask", "unmask"]).required(true).multiple(true),
    after_help = "Examples:\n  \
    mcx new unit node-exporter.service --from node-exporter.service --enable\n  \
    mcx new unit chronyd.service --disable\n  \
    mcx new unit systemd-timesyncd.service --mask --name 99-worker-no-timesyncd\n\n\
    A change of a unit drains and reboots the node unless a policy says otherwise: mcx new policy --unit UNIT --restart UNIT."
)]
pub struct UnitArgs {
    /// Name of the unit, with its suffix
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// File with the unit's text, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub from: Option<PathBuf>,
    /// Enable it
    #[arg(long, conflicts_with = "disable")]
    pub enable: bool,
    /// Disable it
    #[arg(long)]
    pub disable: bool,
    /// Mask it
    #[arg(long, conflicts_with = "unmask")]
    pub mask: bool,
    /// Remove a mask
    #[arg(long)]
    pub unmask: bool,
    /// Whom it is for
    #[command(flatten)]
    pub target: Target,
}

/// Flags of `mcx new dropin`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mcx new dropin kubelet.service 20-limits.conf --from limits.conf\n  \
    printf '[Service]\\nNice=5\\n' | mcx new dropin chronyd.service 10-nice.conf --from -\n\n\
    A drop-in adds to a unit or overrides some of it, and belongs to it: its change drains and reboots the node unless a policy \
    says otherwise for the unit: mcx new policy --unit UNIT --daemon-reload --restart UNIT.")]
pub struct DropinArgs {
    /// Name of the unit, with its suffix
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// Name of the drop-in: NAME.conf
    #[arg(value_name = "NAME.conf")]
    pub dropin: String,
    /// File with its text, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    pub from: PathBuf,
    /// Whom it is for
    #[command(flatten)]
    pub target: Target,
}

/// Flags of `mcx new ssh`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mcx new ssh --key ~/.ssh/id_ed25519.pub\n  \
    mcx new ssh --key alice.pub --key bob.pub --role master --role worker\n\n\
    The keys are the only ones of user boot: those of several MachineConfigs add up.")]
pub struct SshArgs {
    /// File with public keys, or - for standard input; may be given more than once
    #[arg(long, value_name = "FILE.pub|-", required = true)]
    pub key: Vec<PathBuf>,
    /// Whom it is for
    #[command(flatten)]
    pub target: Target,
}

/// Flags of `mcx new tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mcx new tree rootfs/ --name 50-worker-base\n  \
    mcx new tree rootfs/ --enable node-exporter.service\n\n\
    Units and drop-ins below etc/systemd/system become units, all else becomes files with the modes that they have.\n\
    Owners are not taken over: all belongs to root. Links, devices and sockets are refused by name.")]
pub struct TreeArgs {
    /// The folder: what is at DIR/etc/motd becomes /etc/motd
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Enable a unit; may be given more than once
    #[arg(long, value_name = "UNIT")]
    pub enable: Vec<String>,
    /// Disable a unit; may be given more than once
    #[arg(long, value_name = "UNIT")]
    pub disable: Vec<String>,
    /// Mask a unit; may be given more than once
    #[arg(long, value_name = "UNIT")]
    pub mask: Vec<String>,
    /// Whom it is for
    #[command(flatten)]
    pub target: Target,
}

/// Reads the files and prints the `MachineConfig`s.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.from {
        From::File(args) => write(&file(args)?, &args.path, &args.target),
        From::Unit(args) => write(&unit(args)?, &args.unit, &args.target),
        From::Dropin(args) => {
            let mut draft = Draft::default();
            let text = Draft::unit_text(&shown(&args.from), Plain::read(&args.from)?.bytes)?;
            draft.unit(&args.unit).dropins.push((args.dropin.clone(), text));
            write(&draft, &format!("{}-{}", stem(&args.unit), args.dropin), &args.target)
        }
        From::Ssh(args) => {
            let mut draft = Draft::default();
            read::once(&args.key)?;
            for path in &args.key {
                draft.keys.extend(author::keys(&shown(path), &Plain::read(path)?.bytes)?);
            }
            write(&draft, "ssh", &args.target)
        }
        From::Tree(args) => {
            let folder = args.folder.canonicalize().unwrap_or_default();
            write(&tree(args)?, &folder.to_string_lossy(), &args.target)
        }
        From::Policy(args) => policy::run(args),
    }
}

fn file(args: &FileArgs) -> anyhow::Result<Draft> {
    let plain = Plain::read(&args.from)?;
    let file = File {
        path: args.path.clone(),
        mode: args.mode.or(plain.mode).unwrap_or(MODE_OF_STDIN),
        bytes: plain.bytes,
        user: args.user.as_deref().map(owner),
        group: args.group.as_deref().map(owner),
    };
    Ok(Draft { files: vec![file], ..Draft::default() })
}

fn unit(args: &UnitArgs) -> anyhow::Result<Draft> {
    let mut draft = Draft::default();
    let unit = draft.unit(&args.unit);
    let flag = |yes: bool, no: bool| (yes || no).then_some(yes);
    unit.enabled = flag(args.enable, args.disable);
    unit.mask = flag(args.mask, args.unmask);
    if let Some(path) = &args.from {
        unit.contents = Some(Draft::unit_text(&shown(path), Plain::read(path)?.bytes)?);
    }
    Ok(draft)
}

fn tree(args: &TreeArgs) -> anyhow::Result<Draft> {
    let mut draft = Draft::default();
    for (path, plain) in read::tree(&args.folder)? {
        draft.add(&path, plain.mode.unwrap_or(MODE_OF_STDIN), plain.bytes)?;
    }
    if draft.is_empty() {
        bail!("{} holds no file; lay it out like a root: etc/motd in it becomes /etc/motd", args.folder.display());
    }
    for (units, enabled) in [(&args.enable, true), (&args.disable, false)] {
        for name in units {
            let unit = draft.unit(name);
            if unit.enabled.is_some_and(|said| said != enabled) {
                bail!("{name} is given with --enable and with --disable; keep one of them");
            }
            unit.enabled = Some(enabled);
        }
    }
    for name in &args.mask {
        draft.unit(name).mask = Some(true);
    }
    Ok(draft)
}

/// Prints one document for each role, unless one of them would be refused. `of` is what it is named after.
fn write(draft: &Draft, of: &str, target: &Target) -> anyhow::Result<ExitCode> {
    let mut roles: Vec<&str> = Vec::new();
    for role in &target.role {
        if let Some(problem) = author::role_problem(role) {
            bail!("--role: {problem}");
        }
        if !roles.contains(&role.as_str()) {
            roles.push(role);
        }
    }
    if let (Some(name), true) = (&target.name, roles.len() > 1) {
        bail!("--name {name} is one name and --role gives {} MachineConfigs; leave --name out", roles.len());
    }
    if target.pools.iter().any(|path| path.as_os_str() == "-") {
        bail!("-f: pools are read from files, since standard input may hold what it is made from");
    }
    let loaded = load::load(input::Args { filename: target.pools.clone(), recursive: false }.read()?);
    if loaded.has_errors() {
        print::findings(&loaded.findings)?;
        return Ok(ExitCode::FAILURE);
    }
    let pools = loaded.known_pools();
    let mut texts = Vec::new();
    let mut findings = Vec::new();
    for role in roles {
        let name = target.name.clone().unwrap_or_else(|| author::default_name(role, of));
        let text = draft.to_yaml(&name, role);
        findings.extend(author::findings(text.clone(), role, &pools));
        texts.push(text);
    }
    print_unless_refused(&findings, &texts)
}

/// Each text begins a document: what is appended to a file with another object in it stays an object of its own.
fn print_unless_refused(findings: &[Finding], texts: &[String]) -> anyhow::Result<ExitCode> {
    print::findings(findings)?;
    if findings.iter().any(|f| f.severity == Severity::Error) {
        return Ok(ExitCode::FAILURE);
    }
    print::out(&texts.iter().flat_map(|text| ["---\n", text]).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// A number is an id, anything else a name.
fn owner(text: &str) -> Owner {
    text.parse().map_or_else(|_| Owner::Name(text.to_owned()), Owner::Id)
}

fn shown(path: &std::path::Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

/// A unit's name without its suffix.
fn stem(unit: &str) -> &str {
    unit.rsplit_once('.').map_or(unit, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_an_id_or_a_name() {
        assert_eq!((owner("107"), owner("chrony")), (Owner::Id(107), Owner::Name("chrony".to_owned())));
    }
}
