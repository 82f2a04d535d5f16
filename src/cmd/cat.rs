//! `mcx cat`: the bytes of a file, unit or drop-in, as they would be on a node.

use super::{input, print};
use crate::render::item::Item;
use crate::render::load;
use crate::render::nearest;
use crate::render::state::{self, State};
use anyhow::bail;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Flags of `mcx cat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    mcx cat -f examples/ /etc/chrony.conf\n  \
    mcx cat -f examples/ chronyd.service\n  \
    mcx cat -f sources/ --pool infra app.service/10-limits.conf\n  \
    mcx cat -f sources/ /etc/systemd/system/app.service.d/10-limits.conf\n  \
    kubectl get mc rendered-worker-… -o yaml | mcx cat -f - boot\n\n\
    PATH is that of a file, a unit, a unit and its drop-in, the path of either, or boot for the authorized_keys of boot.\n\n\
    Exit codes: 0 printed, 1 no such item or no contents, or the input is refused, 2 could not do it.")]
pub struct Args {
    /// Which contents
    #[arg(value_name = "PATH")]
    pub item: String,
    /// What is read
    #[command(flatten)]
    pub input: input::Args,
    /// Pool whose nodes are meant; needed only where pools differ
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
}

/// Prints the bytes and nothing else.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = load::load(args.input.read()?);
    let state = match State::of(&loaded, args.pool.as_deref()) {
        Ok(state) => state,
        Err(state::Error::Refused(findings)) => {
            print::findings(&findings)?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(pool) = args.pool.as_deref().filter(|pool| !state.knows(pool)) {
        bail!("{}", state.unknown(pool));
    }
    // The same bytes in several pools are one answer.
    let mut found: BTreeMap<Result<Vec<u8>, String>, Vec<&str>> = BTreeMap::new();
    let mut known = Vec::new();
    for (pool, items) in &state.pools {
        let all = Item::all(items);
        if let Some(item) = Item::find(&args.item, &all) {
            let contents = item.contents(items).map_err(|why| format!("{item} {why}"));
            found.entry(contents).or_default().push(pool);
        }
        known.extend(all);
    }
    match found.pop_first() {
        None => {
            let near = Item::nearest(&args.item, &known).map(|near| format!("; {}", nearest::meant(&near)));
            let near = near.unwrap_or_default();
            let of = args.pool.as_ref().map(|pool| format!(" of pool {pool}")).unwrap_or_default();
            print::error(&format!("no file, unit or drop-in {:?} in the config{of}{near}", args.item));
            Ok(ExitCode::FAILURE)
        }
        Some((contents, pools)) => {
            if let Some((_, others)) = found.pop_first() {
                bail!(
                    "{:?} differs between pools {} and {}; give --pool",
                    args.item,
                    pools.join(", "),
                    others.join(", ")
                );
            }
            match contents {
                Ok(bytes) => {
                    print::bytes(&bytes)?;
                    Ok(ExitCode::SUCCESS)
                }
                Err(why) => {
                    print::error(&why);
                    Ok(ExitCode::FAILURE)
                }
            }
        }
    }
}
