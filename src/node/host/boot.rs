//! What a node says of its present life: boot id, service manager, force file.

use super::{Error, Host, Kind};

/// A file that asks the daemon to apply the desired config without comparing the disk first.
pub const FORCE_FILE: &str = "/run/machine-config-daemon-force";

/// Is there while systemd runs, `sd_booted(3)`.
const SYSTEMD: &str = "/run/systemd/system";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Host {
    /// Whether a service manager runs in this root (`/run/systemd/system` exists); without one, units are changed with
    /// `systemctl --root` and actions are not run. That it cannot be told is an error: on a node whose actions are not run
    /// nothing would say so.
    pub fn has_systemd(&self) -> Result<bool, Error> {
        let seen = self.root().seen(SYSTEMD).map_err(Error::file("look at", SYSTEMD))?;
        Ok(seen.kind == Kind::Dir)
    }

    /// The boot id, read through the root's `/proc`.
    pub fn boot_id(&self) -> Result<String, Error> {
        let bytes = self.root().read(BOOT_ID, 128).map_err(Error::file("read", BOOT_ID))?;
        let id = String::from_utf8_lossy(&bytes).trim().to_owned();
        if id.is_empty() { Err(Error::Other(format!("{BOOT_ID} is empty"))) } else { Ok(id) }
    }

    /// Whether the force file is there: anything of that name but a directory.
    pub fn force_file(&self) -> bool {
        self.root().seen(FORCE_FILE).is_ok_and(|seen| !matches!(seen.kind, Kind::Absent | Kind::Dir))
    }

    /// Removes the force file, durably.
    pub fn remove_force_file(&self) -> Result<(), Error> {
        let fails = || Error::file("remove", FORCE_FILE);
        match self.root().place(FORCE_FILE) {
            Ok(place) => {
                place.remove().map_err(fails())?;
                place.sync().map_err(fails())
            }
            Err(error) if super::root::is_absent(&error) => Ok(()),
            Err(error) => Err(fails()(error)),
        }
    }
}
