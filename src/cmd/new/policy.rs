//! `mcx new policy`: what a change of a file or unit costs a node.

use crate::api::machine_configuration::{PolicyAction, ServiceName};
use crate::change;
use crate::render::{author, load};
use clap::ArgGroup;
use std::process::ExitCode;

/// Flags of `mcx new policy`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(
    group = ArgGroup::new("what").args(["path", "unit"]).required(true).multiple(true),
    group = ArgGroup::new("cost").args(["none", "daemon_reload", "reload", "restart", "drain", "reboot"]).required(true)
        .multiple(true),
    after_help = "Examples:\n  \
    mcx new policy --path /etc/chrony.conf --restart chronyd.service\n  \
    mcx new policy --path /etc/motd --path /etc/issue.d --none\n  \
    mcx new policy --unit node-exporter.service --daemon-reload --restart node-exporter.service\n\n\
    Without an entry a file costs nothing, and nothing is restarted; a unit costs a drain and a reboot. An entry for a folder \
    holds for all below it, unless a longer path has one. A policy holds for all pools. There is one in a cluster: add the \
    entries to those that it has, as `kubectl get machineconfiguration cluster -o yaml` shows them. Apply it before the \
    MachineConfig that it is for."
)]
pub struct PolicyArgs {
    /// File or folder whose changes cost this; may be given more than once
    #[arg(long)]
    pub path: Vec<String>,
    /// Unit whose changes cost this; may be given more than once
    #[arg(long)]
    pub unit: Vec<String>,
    /// Nothing
    #[arg(long, conflicts_with_all = ["daemon_reload", "reload", "restart", "drain", "reboot"])]
    pub none: bool,
    /// systemctl daemon-reload
    #[arg(long)]
    pub daemon_reload: bool,
    /// systemctl reload UNIT; may be given more than once
    #[arg(long, value_name = "UNIT")]
    pub reload: Vec<String>,
    /// systemctl restart UNIT; may be given more than once
    #[arg(long, value_name = "UNIT")]
    pub restart: Vec<String>,
    /// A drain of the node
    #[arg(long, conflicts_with = "reboot")]
    pub drain: bool,
    /// A drain and a reboot of the node
    #[arg(long, conflicts_with_all = ["daemon_reload", "reload", "restart"])]
    pub reboot: bool,
}

/// Prints the policy, unless it would be refused.
pub(super) fn run(args: &PolicyArgs) -> anyhow::Result<ExitCode> {
    let text = author::policy(&args.path, &args.unit, &actions(args));
    let loaded = load::load(vec![load::Input { name: String::new(), bytes: text.clone().into_bytes() }]);
    let mut findings = loaded.findings;
    findings.extend(loaded.policies.iter().flat_map(change::policy::findings));
    for finding in &mut findings {
        // There is no file yet that one could look at.
        (finding.file, finding.line, finding.column) = (None, None, None);
    }
    super::print_unless_refused(&findings, &[text])
}

/// In the order in which a node carries them out.
fn actions(args: &PolicyArgs) -> Vec<PolicyAction> {
    let plain = |name: &str| PolicyAction { type_: name.to_owned(), reload: None, restart: None };
    let service = |name: &String| Some(ServiceName { service_name: name.clone() });
    let mut actions = Vec::new();
    for (asked, name) in [(args.none, "None"), (args.reboot, "Reboot"), (args.drain, "Drain")] {
        actions.extend(asked.then(|| plain(name)));
    }
    actions.extend(args.daemon_reload.then(|| plain("DaemonReload")));
    actions.extend(args.reload.iter().map(|unit| PolicyAction { reload: service(unit), ..plain("Reload") }));
    actions.extend(args.restart.iter().map(|unit| PolicyAction { restart: service(unit), ..plain("Restart") }));
    actions
}
