//! The guard on the host: a copy of this binary, a unit that runs it and the link that enables it. They come before the
//! first switch of an update that is guarded, in this order, and go in the other one when it is closed.
//!
//! The unit asks for nothing but the folder of the state, and nothing that a config can break takes it along: not the
//! kubelet, not the runtime, not the network, not a boot that ends in the emergency shell.

use super::super::host::{Error, Host, Kind, Meta};
use crate::api::{GUARD_UNIT, STATE_DIR};
use std::time::Duration;

/// Longest time for `systemctl`. The unit has to look at the node's health before it counts as started.
const SYSTEMCTL_TIME: Duration = Duration::from_secs(90);
const UNIT_DIR: &str = "/etc/systemd/system";
/// Whose units a boot wants first of all, even one that ends in the emergency shell.
const WANTS_DIR: &str = "/etc/systemd/system/sysinit.target.wants";

fn binary_dir() -> String {
    format!("{STATE_DIR}/bin")
}

fn binary() -> String {
    format!("{STATE_DIR}/bin/mcx")
}

fn unit() -> String {
    format!("{UNIT_DIR}/{GUARD_UNIT}")
}

fn link() -> String {
    format!("{WANTS_DIR}/{GUARD_UNIT}")
}

/// The unit's file. Through a shell, since where `SELinux` enforces, systemd itself may not execute what lies in
/// `/var/lib`.
fn text() -> String {
    let binary = binary();
    format!(
        "# Made by mcx for the time of one update, and removed by it.\n\
         [Unit]\n\
         Description=Takes a machine configuration back that takes this node away from its cluster\n\
         DefaultDependencies=no\n\
         IgnoreOnIsolate=yes\n\
         RequiresMountsFor={STATE_DIR}\n\
         Conflicts=shutdown.target\n\
         Before=shutdown.target\n\
         StartLimitIntervalSec=0\n\
         [Service]\n\
         Type=notify\n\
         ExecStart=/bin/sh -c 'exec {binary} guard --root /'\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         TimeoutStartSec=60\n\
         OOMScoreAdjust=-999\n\
         [Install]\n\
         WantedBy=sysinit.target\n"
    )
}

/// Puts the guard in its place, durably, and starts it. That it has started proves that it can run on this node and sees
/// that the node is well: a guard that cannot must never judge. The journal must name what it is to look at.
pub async fn leave(host: &Host) -> Result<(), Error> {
    host.check_program()?;
    let left = async {
        place(host)?;
        systemctl(host, &["daemon-reload"]).await?;
        systemctl(host, &["restart", GUARD_UNIT]).await
    }
    .await;
    let Err(error) = left else { return Ok(()) };
    // What is left of it now is of no use.
    if let Err(leftover) = remove(host).await {
        tracing::warn!(%leftover, "cannot remove the guard");
    }
    Err(match error {
        Error::Command { command, detail } => Error::Command {
            command,
            detail: format!("{detail}; nothing is changed without a guard: see `journalctl -u {GUARD_UNIT}`"),
        },
        other => other,
    })
}

fn place(host: &Host) -> Result<(), Error> {
    let root = host.root();
    let (private, plain) = (Meta { mode: 0o700, uid: 0, gid: 0 }, Meta { mode: 0o755, uid: 0, gid: 0 });
    let dir = binary_dir();
    root.make_dir(&dir, private).map_err(Error::file("make", &dir))?;
    host.copy_program(&binary())?;
    let unit = unit();
    root.write_durably(&unit, text().as_bytes(), Meta { mode: 0o644, ..plain }).map_err(Error::file("write", &unit))?;
    root.make_dir(WANTS_DIR, plain).map_err(Error::file("make", WANTS_DIR))?;
    let link = link();
    let place = root.place(&link).map_err(Error::file("open the directory of", &link))?;
    let made = place.unstage().and_then(|()| place.stage_link(format!("../{GUARD_UNIT}").as_bytes(), 0, 0));
    made.and_then(|()| place.switch()).and_then(|()| place.sync()).map_err(Error::file("write", &link))
}

/// Whether anything of the guard is on the host.
pub fn is_there(host: &Host) -> Result<bool, Error> {
    for path in [link(), unit(), binary_dir()] {
        if host.root().seen(&path).map_err(Error::file("look at", &path))?.kind != Kind::Absent {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends the guard and removes all of it; what is not there is fine. Only for who holds the lock of the state.
pub async fn remove(host: &Host) -> Result<(), Error> {
    if !is_there(host)? {
        return Ok(());
    }
    take_away(host)?;
    if host.has_systemd()? {
        // It would end by itself, but may be needed again at once. Not running is fine.
        let stopped = host.run(&["systemctl", "stop", GUARD_UNIT], SYSTEMCTL_TIME).await?;
        tracing::debug!(status = stopped.status, "the guard is stopped");
        forget(host).await?;
    }
    Ok(())
}

/// The same by the guard itself, which ends by itself.
pub async fn remove_self(host: &Host) -> Result<(), Error> {
    take_away(host)?;
    if host.has_systemd()? { forget(host).await } else { Ok(()) }
}

/// Has systemd forget the unit, and that it failed.
async fn forget(host: &Host) -> Result<(), Error> {
    let reset = host.run(&["systemctl", "reset-failed", GUARD_UNIT], SYSTEMCTL_TIME).await?;
    tracing::debug!(status = reset.status, "the guard is forgotten");
    systemctl(host, &["daemon-reload"]).await
}

fn take_away(host: &Host) -> Result<(), Error> {
    let root = host.root();
    for path in [link(), unit(), binary()] {
        let place = match root.place(&path) {
            Err(error) if super::super::host::is_absent(&error) => continue,
            place => place.map_err(Error::file("open the directory of", &path))?,
        };
        let gone = place.unstage().and_then(|()| place.remove()).and_then(|()| place.sync());
        gone.map_err(Error::file("remove", &path))?;
    }
    for dir in [WANTS_DIR.to_owned(), binary_dir()] {
        root.remove_empty_dir(&dir).map_err(Error::file("remove", &dir))?;
    }
    Ok(())
}

async fn systemctl(host: &Host, args: &[&str]) -> Result<(), Error> {
    let shown: Vec<&str> = std::iter::once("systemctl").chain(args.iter().copied()).collect();
    host.run(&shown, SYSTEMCTL_TIME).await?.ok(&shown).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::systemd::directive;
    use crate::render::systemd::oddity::oddities;
    use crate::render::systemd::text::UnitText;
    use std::path::{Path, PathBuf};

    fn root() -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc/systemd/system")).unwrap();
        std::fs::create_dir_all(dir.path().join("var/lib/mcx")).unwrap();
        let host = Host::open(dir.path()).unwrap();
        (dir, host)
    }

    fn is_root() -> bool {
        nix::unistd::geteuid().is_root()
    }

    fn tree(dir: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut todo = vec![dir.to_owned()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    todo.push(path.clone());
                }
                found.push(path);
            }
        }
        found.sort();
        found
    }

    #[tokio::test]
    async fn it_comes_whole_and_goes_whole() {
        if !is_root() {
            return;
        }
        let (dir, host) = root();
        let before = tree(dir.path());
        let program = dir.path().join("program");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        let host = host.with_program(program.clone());
        place(&host).unwrap();
        assert_eq!(std::fs::read(dir.path().join("var/lib/mcx/bin/mcx")).unwrap(), b"#!/bin/sh\n");
        let enabled =
            std::fs::read_to_string(dir.path().join("etc/systemd/system/sysinit.target.wants/mcx-guard.service"));
        assert_eq!(enabled.unwrap(), text(), "the link leads to the unit");
        // A second time, over what an earlier one left behind in its middle.
        std::fs::remove_file(dir.path().join("var/lib/mcx/bin/mcx")).unwrap();
        place(&host).unwrap();
        assert!(is_there(&host).unwrap());
        remove(&host).await.unwrap();
        assert!(!is_there(&host).unwrap());
        remove(&host).await.unwrap();
        std::fs::remove_file(program).unwrap();
        assert_eq!(tree(dir.path()), before);
    }

    #[tokio::test]
    async fn whatever_part_of_it_is_there_goes() {
        if !is_root() {
            return;
        }
        let (dir, host) = root();
        let before = tree(dir.path());
        for path in [
            "etc/systemd/system/mcx-guard.service",
            "etc/systemd/system/sysinit.target.wants/mcx-guard.service",
            "var/lib/mcx/bin/mcx",
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "half").unwrap();
            remove(&host).await.unwrap();
            assert_eq!(tree(dir.path()), before);
        }
    }

    #[test]
    fn the_unit_is_one_that_systemd_takes_as_it_stands() {
        let found = oddities(&UnitText::read(&text()), directive::sections(GUARD_UNIT).unwrap());
        assert!(found.is_empty(), "{found:?}");
    }
}
