//! `mcx apply`: brings a folder to what a pool's nodes would have, by the daemon's own transaction.

use super::render::{self, Ready};
use super::{input, print};
use crate::api::{CLUSTER, protocol};
use crate::change::policy::EffectivePolicy;
use crate::change::{self, Actions, ChangeSet};
use crate::node::disk::{Check, Disk};
use crate::node::folder::{self, Ended};
use crate::node::host::{self, Host};
use crate::node::journal::NamedConfig;
use crate::render::item::Item;
use anyhow::{Context as _, bail};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Flags of `mcx apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    mcx apply --root rootfs/ --pool worker -f examples/ --dry-run\n  \
    mcx apply --root rootfs/ --pool worker -f examples/\n  \
    mcx apply --root rootfs/ --withdraw\n\n\
    The folder needs no cluster: it may be the root of an image that is being built. It is changed as a node would be,\n\
    each path wholly or not at all; what stood there before is kept in DIR/var/lib/mcx and given back by --withdraw.\n\
    A run that was interrupted is finished or undone by the next one. Nothing is drained, restarted or rebooted. A node\n\
    that starts from the folder is taken over by its daemon as it is. Files are given to their owners, so it runs as root.\n\
    Exit codes: 0 applied or nothing to do, 1 refused, 2 failed (all is as before).")]
pub struct Args {
    /// Folder to change, laid out like a node's root
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Pool whose nodes have what the folder shall have
    #[arg(long, value_name = "POOL", required_unless_present = "withdraw")]
    pub pool: Option<String>,
    /// File or folder with the objects, or - for standard input; may be given more than once
    #[arg(short, long, value_name = "FILE|DIR|-", required_unless_present = "withdraw")]
    pub filename: Vec<PathBuf>,
    /// Read folders with all that is below them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Give everything back: the folder becomes what it was before mcx
    #[arg(long, conflicts_with_all = ["pool", "filename", "recursive"])]
    pub withdraw: bool,
    /// Print the steps and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Formats of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    /// `--dry-run`: nothing was done.
    Planned,
    Applied,
    /// Nothing was to be done.
    Same,
    Refused,
    /// It failed and was undone.
    Undone,
}

/// All that is said.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    root: String,
    outcome: Outcome,
    /// Name of the config before; empty for none.
    from: String,
    /// Name of the config that the folder shall have; empty for none.
    to: String,
    /// An earlier run that was interrupted, and what became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<String>,
    changes: Vec<Change>,
    /// Steps that were carried out, or would be.
    steps: Vec<String>,
    /// Actions of the policy, which need a running system.
    not_run: Vec<NotRun>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Change {
    item: String,
    change: String,
}

#[derive(Debug, Serialize)]
struct NotRun {
    action: String,
    causes: Vec<String>,
}

/// Applies and reports.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (to, policy) = if args.withdraw {
        (NamedConfig::empty(), EffectivePolicy::shipped())
    } else {
        let input = input::Args { filename: args.filename.clone(), recursive: args.recursive };
        let Some(Ready { loaded, rendered, .. }) = render::ready(&input, args.pool.as_deref().unwrap_or_default())?
        else {
            return Ok(ExitCode::FAILURE);
        };
        let cluster = loaded.policies.iter().find(|policy| policy.name() == CLUSTER);
        let policy = cluster.map_or_else(EffectivePolicy::shipped, EffectivePolicy::from_spec);
        (NamedConfig::of(rendered.name, &rendered.items), policy)
    };
    if !args.dry_run && !nix::unistd::geteuid().is_root() {
        bail!(
            "only root can give files to their owners: run it as root, or, for a folder of your own, with \
             `unshare --map-root-user mcx apply …`"
        );
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let host = Arc::new(Host::open(&args.root)?);
    let mut report = Report::new(args, &to);
    if args.dry_run {
        runtime.block_on(report.preview(&host, &to, &policy))?;
    } else {
        runtime.block_on(report.apply(host, &to, &policy))?;
    }
    report.print(args)
}

impl Report {
    fn new(args: &Args, to: &NamedConfig) -> Self {
        Self {
            root: args.root.display().to_string(),
            outcome: Outcome::Same,
            from: String::new(),
            to: to.name.to_string(),
            interrupted: None,
            changes: Vec::new(),
            steps: Vec::new(),
            not_run: Vec::new(),
            warnings: Vec::new(),
            problems: Vec::new(),
        }
    }

    async fn preview(&mut self, host: &Arc<Host>, to: &NamedConfig, policy: &EffectivePolicy) -> anyhow::Result<()> {
        let preview = folder::preview(host, to).await?;
        self.interrupted = preview.interrupted.map(|name| {
            let what = if preview.from.name == name { "is finished first" } else { "is undone first" };
            format!("the update to {} that was interrupted {what}", named(&name))
        });
        self.changes_between(&preview.from, to, policy)?;
        self.steps = preview.steps.iter().map(ToString::to_string).collect();
        self.outcome = if preview.from.name == to.name { Outcome::Same } else { Outcome::Planned };
        if let Some(keeper) = folder::keeper(host)? {
            self.refuse(format!("{} is {keeper}", self.root));
        }
        self.checked(preview.check);
        Ok(())
    }

    async fn apply(&mut self, host: Arc<Host>, to: &NamedConfig, policy: &EffectivePolicy) -> anyhow::Result<()> {
        if to.name.is_empty() && !folder::has_state(&host)? {
            return Ok(());
        }
        let disk = match Disk::open(host, Duration::ZERO).await {
            Err(error @ host::Error::Held(_)) => {
                self.refuse(error.to_string());
                return Ok(());
            }
            disk => disk?,
        };
        if let Some(keeper) = folder::keeper(disk.host())? {
            self.refuse(format!("{} is {keeper}", self.root));
            return Ok(());
        }
        let result = self.apply_locked(&disk, to, policy).await;
        // Whether all was given back or nothing was begun: a folder that has nothing of mcx has no state of it either.
        let tidied = folder::is_untouched(disk.host()).and_then(|is_bare| if is_bare { disk.forget() } else { Ok(()) });
        // Why it could not be done says more than what then could not be tidied.
        result?;
        Ok(tidied?)
    }

    async fn apply_locked(&mut self, disk: &Disk, to: &NamedConfig, policy: &EffectivePolicy) -> anyhow::Result<()> {
        let mut steps = Vec::new();
        let mut observer = |step: &crate::node::plan::Step| steps.push(step.to_string());
        let finished = folder::finish(disk, &to.name, &mut observer).await?;
        let from = folder::current(disk)?;
        let ended = if from.name != to.name {
            self.changes_between(&from, to, policy)?;
            folder::update(disk, to, &mut observer).await?
        } else if to.name.is_empty() {
            Ended::Done
        } else {
            let drift = disk.compare(&folder::items(to)?).await?;
            if drift.is_empty() { Ended::Done } else { Ended::Refused(Check { drift, ..Check::default() }) }
        };
        let is_changed = from.name != to.name || finished.is_some();
        self.interrupted = finished.map(|(name, ended)| match ended {
            Ended::Done => format!("the update to {} that was interrupted is finished", named(&name)),
            Ended::Undone(why) => format!("the update to {} that was interrupted is undone: {why}", named(&name)),
            Ended::Refused(_) => String::new(),
        });
        self.steps = steps;
        match ended {
            Ended::Done => {
                self.outcome = if is_changed { Outcome::Applied } else { Outcome::Same };
            }
            Ended::Undone(why) => {
                self.outcome = Outcome::Undone;
                self.problems.push(why);
            }
            Ended::Refused(check) => self.checked(check),
        }
        Ok(())
    }

    fn changes_between(
        &mut self,
        from: &NamedConfig,
        to: &NamedConfig,
        policy: &EffectivePolicy,
    ) -> anyhow::Result<()> {
        self.from = from.name.to_string();
        let (old, new) = (folder::items(from)?, folder::items(to)?);
        let set = ChangeSet::between(&old, &new);
        self.not_run = not_run(&change::actions(&set, policy));
        // A path or a name, as a person types it; `boot` alone would say too little.
        let named = |item: Item| if item == Item::Keys { item.to_string() } else { item.name() };
        self.changes =
            set.items().map(|(item, change)| Change { item: named(item), change: change.to_string() }).collect();
        Ok(())
    }

    fn refuse(&mut self, problem: String) {
        self.outcome = Outcome::Refused;
        self.problems.push(problem);
    }

    /// What is in the way of an update.
    fn checked(&mut self, check: Check) {
        for deviation in &check.drift {
            self.refuse(format!("{deviation}: somebody else has changed it; put it right or move it away"));
        }
        for obstacle in check.obstacles {
            self.refuse(obstacle);
        }
        self.warnings.extend(check.warnings);
    }

    fn print(&self, args: &Args) -> anyhow::Result<ExitCode> {
        let text = match args.output {
            Output::Json => format!("{:#}\n", serde_json::to_value(self)?),
            Output::Text => self.text(args),
        };
        print::out(&text)?;
        if args.output == Output::Text {
            for line in self.warnings.iter().map(|w| format!("warning: {w}")).chain(self.problems.iter().cloned()) {
                print::error(&line);
            }
        }
        Ok(match self.outcome {
            Outcome::Planned | Outcome::Applied | Outcome::Same => ExitCode::SUCCESS,
            Outcome::Refused => ExitCode::FAILURE,
            Outcome::Undone => ExitCode::from(2),
        })
    }

    /// What changed, item by item; what was refused or undone changed nothing.
    fn text(&self, args: &Args) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        if let Some(interrupted) = &self.interrupted {
            let _ = writeln!(text, "{interrupted}");
        }
        if matches!(self.outcome, Outcome::Planned | Outcome::Applied) {
            for change in &self.changes {
                let _ = writeln!(text, "{:<8} {}", change.change, change.item);
            }
            for step in self.steps.iter().filter(|_| args.dry_run) {
                let _ = writeln!(text, "step: {step}");
            }
            for action in &self.not_run {
                let causes = protocol::first_and_count(&action.causes, ", ");
                let _ = writeln!(text, "not run: {} ({causes})", action.action);
            }
        }
        let root = &self.root;
        let to = if args.withdraw { "what it had before mcx" } else { self.to.as_str() };
        let _ = match self.outcome {
            Outcome::Planned => writeln!(text, "{root} would have {to}; nothing was changed"),
            Outcome::Applied => writeln!(text, "{root} has {to}"),
            Outcome::Same => writeln!(text, "{root} has {to} already: nothing to do"),
            Outcome::Refused => writeln!(text, "{root} is as it was: refused"),
            Outcome::Undone => writeln!(text, "{root} is as it was: failed"),
        };
        text
    }
}

/// Each action with what asks for it.
fn not_run(actions: &Actions) -> Vec<NotRun> {
    let of = |action: &change::Action| {
        let action = action.to_string();
        let causes = actions.causes.iter().filter(|cause| cause.action == action);
        let causes = causes.map(|cause| match cause.entry.as_str() {
            entry @ ("default" | "unit file") => format!("{}: {entry}", cause.item),
            entry => format!("{}: policy entry {entry}", cause.item),
        });
        NotRun { causes: causes.collect(), action }
    };
    actions.list.iter().map(of).collect()
}

fn named(name: &crate::api::ConfigName) -> &str {
    if name.is_empty() { "what was there before mcx" } else { name.as_str() }
}
