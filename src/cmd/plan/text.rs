//! A plan for people: a heading for each pool, one label for each question, at most [`WIDTH`] columns where names allow it.

use crate::api::protocol::NAMED;
use crate::api::{ConfigName, NodeName};
use crate::change::Difference;
use crate::cmd::print;
use crate::pool::preview::drain::NodeDrain;
use crate::pool::preview::{Change, Cost, Plan, PoolPlan, Update, Waits};
use anstyle::{AnsiColor, Style};
use std::fmt::Write as _;

/// Columns of a line.
const WIDTH: usize = 80;
/// Columns before the text of a line, with its label.
const INDENT: usize = 12;

/// The whole plan. `no_nodes` is what to say when no node is known.
pub(super) fn of(plan: &Plan, no_nodes: &str) -> String {
    let mut page = Page::default();
    page.line("policy", &plan.policy);
    page.lines("deleted", &plan.deleted.iter().map(|name| format!("MachineConfig/{name}")).collect::<Vec<_>>());
    if plan.nodes == 0 {
        page.line("nodes", no_nodes);
    }
    for pool in &plan.pools {
        page.blank();
        page.pool(pool);
    }
    if !plan.without_pool.is_empty() {
        page.blank();
        page.heading("in no pool", "these nodes get nothing", Style::new());
        page.waits("waits", &plan.without_pool);
    }
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn blank(&mut self) {
        self.0.push('\n');
    }

    fn heading(&mut self, what: &str, text: &str, style: Style) {
        let (bold, style) =
            if print::is_coloured() { (Style::new().bold(), style) } else { (Style::new(), Style::new()) };
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "{bold}{what}{bold:#}: {style}{text}{style:#}");
    }

    /// Text behind a label, wrapped between words; without a label, the next line of the one before.
    fn line(&mut self, label: &str, text: &str) {
        // Reasons hold what people wrote into annotations: a terminal must not obey it.
        let text = text.replace(char::is_control, " ");
        let mut line = if label.is_empty() { String::new() } else { format!("  {label}") };
        let mut empty = true;
        let mut columns = line.chars().count();
        for word in text.split(' ') {
            if !empty && columns + 1 + word.chars().count() > WIDTH {
                let _ = writeln!(self.0, "{line}");
                // Further in than the first: one entry stays one.
                line = " ".repeat(INDENT + 2);
                (columns, empty) = (INDENT + 2, true);
            }
            let gap = if empty { INDENT.saturating_sub(columns) } else { 1 };
            line.extend(std::iter::repeat_n(' ', gap));
            line.push_str(word);
            columns += gap + word.chars().count();
            empty = false;
        }
        let _ = writeln!(self.0, "{}", line.trim_end());
    }

    /// Lines behind one label: the first ten, and how many there are beyond.
    fn lines(&mut self, label: &str, lines: &[String]) {
        for (i, line) in lines.iter().take(NAMED).enumerate() {
            self.line(if i == 0 { label } else { "" }, line);
        }
        if let more @ 1.. = lines.len().saturating_sub(NAMED) {
            self.line("", &format!("and {more} more; -o json has all"));
        }
    }

    fn pool(&mut self, pool: &PoolPlan) {
        let colour = match pool.cost {
            Cost::Nothing | Cost::NoDisruption => AnsiColor::Green,
            Cost::Drain => AnsiColor::Yellow,
            Cost::Reboot => AnsiColor::Red,
        };
        self.heading(&format!("pool {}", pool.pool), &pool.cost.to_string(), colour.on_default());
        for (i, update) in pool.updates.iter().enumerate() {
            self.update(update, i == 0, pool);
        }
        let waves: usize = pool.waves.iter().map(Vec::len).sum();
        if pool.nodes > 0 {
            let limit = pool.max_unavailable.map_or(String::new(), |limit| format!(", {limit} at a time"));
            let text = format!("{} in the pool, {waves} to go{limit}", count(pool.nodes, "node"));
            self.line("nodes", &text);
        }
        self.waits("under way", &pool.under_way);
        self.waves(&pool.waves);
        self.waits("waits", &pool.waits);
        if let Some(drains) = &pool.drains {
            self.drains(drains);
        }
    }

    fn update(&mut self, update: &Update, own: bool, pool: &PoolPlan) {
        let config = |name: &Option<ConfigName>| name.as_ref().map_or("nothing", |n| n.as_str()).to_owned();
        let is_nothing = update.change.as_ref().is_some_and(|c| c.cost == Cost::Nothing);
        if own && is_nothing {
            // What is and what shall be are one.
            return self.line("config", &config(&update.to));
        }
        self.line("from", &config(&update.from));
        if !own {
            let nodes: Vec<&str> = update.nodes.iter().map(NodeName::as_str).collect();
            let has = if nodes.len() == 1 { "has" } else { "have" };
            self.line("", &format!("which {} {has} now", first(&nodes)));
        }
        self.line("to", &config(&update.to));
        match &update.change {
            Some(change) => self.change(change),
            None if update.to.is_none() => self.line("changes", &format!("pool {} has no target", pool.pool)),
            None => self.line("changes", "not known: the config is not among what was read"),
        }
    }

    fn change(&mut self, change: &Change) {
        self.line("changes", &change.changes.to_string());
        let items: Vec<String> = change
            .changes
            .items()
            .map(|(item, difference)| {
                let sign = match difference {
                    Difference::Added => '+',
                    Difference::Changed => '~',
                    Difference::Removed => '-',
                };
                format!("{sign} {item}")
            })
            .collect();
        self.lines("", &items);
        self.line("actions", &change.actions.to_string());
        let causes: Vec<String> = change
            .actions
            .causes
            .iter()
            .map(|cause| {
                let entry = match cause.entry.as_str() {
                    // A file's change that restarts nothing is the usual surprise.
                    "default" if cause.action == "None" => "no policy entry: nothing is restarted".to_owned(),
                    "default" => "no policy entry".to_owned(),
                    "unit file" => "a unit file changes".to_owned(),
                    entry => format!("policy entry {entry}"),
                };
                format!("{} <- {} ({entry})", cause.action, cause.item)
            })
            .collect();
        self.lines("", &causes);
        if let Some(diff) = &change.diff {
            self.0.push_str(&print::diff(diff));
        }
    }

    /// One wave a line, with its number.
    fn waves(&mut self, waves: &[Vec<NodeName>]) {
        let text = |(i, wave): (usize, &Vec<NodeName>)| {
            let nodes: Vec<&str> = wave.iter().map(NodeName::as_str).collect();
            format!("{}. {}", i + 1, first(&nodes))
        };
        let lines: Vec<String> = waves.iter().enumerate().map(text).collect();
        self.lines("waves", &lines);
    }

    /// Nodes by what is said of them.
    fn waits(&mut self, label: &str, waits: &[Waits]) {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for Waits { node, why } in waits {
            match groups.iter_mut().find(|(text, _)| text == why) {
                Some((_, nodes)) => nodes.push(node.as_str()),
                None => groups.push((why, vec![node.as_str()])),
            }
        }
        let lines: Vec<String> = groups.iter().map(|(why, nodes)| format!("{}: {why}", first(nodes))).collect();
        self.lines(label, &lines);
    }

    fn drains(&mut self, drains: &[NodeDrain]) {
        let pods: usize = drains.iter().map(|d| d.evictions).sum();
        self.line("drain", &format!("{} on {} would be evicted", count(pods, "pod"), count(drains.len(), "node")));
        let all = |of: fn(&NodeDrain) -> &Vec<String>| -> Vec<String> {
            drains.iter().flat_map(|d| of(d).iter().map(|text| format!("{}: {text}", d.node))).collect()
        };
        self.lines("blocked", &all(|d| &d.blocked));
        self.lines("slow", &all(|d| &d.slow));
        let bare = |text: String| format!("{text}, which nobody makes again");
        self.lines("lost", &all(|d| &d.bare).into_iter().map(bare).collect::<Vec<_>>());
        let data = |text: String| format!("{text}: what is in these volumes");
        self.lines("emptyDir", &all(|d| &d.empty_dir).into_iter().map(data).collect::<Vec<_>>());
    }
}

fn first(names: &[&str]) -> String {
    crate::api::protocol::first_and_count(names, ", ")
}

fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}
