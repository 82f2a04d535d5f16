//! What the daemon does about the guard: leaves it on the host, looks at the node's health itself, removes it.

use super::{Daemon, Trouble};
use crate::node::guard::rule::Look;
use crate::node::guard::{health, unit};
use crate::node::host::Error;
use crate::node::journal::{Guard, Journal};
use crate::node::machine::Work;

impl Daemon {
    /// Notes what the guard is to look at, and has it come to its place. What cannot be guarded is not begun.
    pub(super) async fn leave_guard(&mut self) -> Result<(), Trouble> {
        let Some(boot_id) = self.s.boot_id.clone() else { return Ok(()) };
        let address = self.options.kubelet;
        let kubelet = health::kubelet(address).await.then(|| address.to_string());
        let servers = self.cluster()?.servers(self.disk.host().root().path());
        let patience = self.options.patience.as_secs();
        let guard = Guard { patience, kubelet, servers, boot_id, ..Guard::default() };
        tracing::info!(kubelet = guard.kubelet, servers = ?guard.servers, patience, "leaving the guard");
        let journal = Journal { guard: Some(guard.clone()), ..self.journal()? };
        let (stage, to) = (journal.stage, journal.to.name.clone());
        // The guard that is started reads it.
        self.save(journal)?;
        // Without a service manager no action runs, and nothing could run the guard.
        let host = self.disk.host();
        let left = match host.has_systemd() {
            Ok(true) => unit::leave(host).await,
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = left {
            return self.failed_forward(Work::Guard, &error, stage, &to).await;
        }
        let journal = Journal { guard: Some(Guard { left: true, ..guard }), ..self.journal()? };
        self.save(journal)
    }

    /// One look at the node's health.
    pub(super) async fn look_at_health(&self) -> Look {
        let at = self.now();
        let api = async {
            match self.cluster() {
                Ok(cluster) => cluster.answers().await,
                Err(_) => false,
            }
        };
        let (kubelet, api) = tokio::join!(health::kubelet(self.options.kubelet), api);
        tracing::debug!(kubelet, api, "looked");
        Look { at, kubelet, api }
    }

    /// No update is open: the guard goes. What cannot be removed now goes by itself when it next looks, and with the next
    /// start of the daemon.
    pub(super) async fn remove_guard(&self) {
        let host = self.disk.host();
        let removed: Result<(), Error> =
            if self.cluster.is_some() { unit::remove(host).await } else { unit::remove_self(host).await };
        if let Err(error) = removed {
            tracing::warn!(error = super::text(&error), "cannot remove the guard");
        }
    }
}
