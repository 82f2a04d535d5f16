//! Who leads: one holder of a Lease at a time, judged by each replica's own monotonic clock.
//!
//! A replica takes the lease when it is free, or when it has seen no change of it for the whole duration that the lease
//! names: no clock of another machine is compared. Every write is under the resourceVersion that was read, so that of
//! two that take it at once one fails. The holder stops at seven tenths of the duration after the last renewal that it
//! *began* with success, which is before anybody else may take it. A lease is no fence all the same: a holder may be
//! frozen between two writes; the epochs of `takeover` and `rollout` make that harmless.

use super::backoff::{Backoff, jitter, random};
use super::cache::one_line;
use crate::api::Epoch;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use std::io::Read as _;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

/// The times of an election, all made from the lease's duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// For how long a lease holds after a renewal. Others wait so long after the last change that they saw.
    pub duration: Duration,
    /// The holder stops so long after it began its last successful renewal.
    pub deadline: Duration,
    /// The holder renews so often.
    pub renew: Duration,
    /// The others look so often.
    pub look: Duration,
    /// Longest time for one request.
    pub request: Duration,
}

impl Timing {
    /// With 10 s: renewed every 2 s, given up after 7 s, taken over 10 to 13 s after a holder died without a word.
    pub fn new(duration: Duration) -> Self {
        Self {
            duration,
            deadline: duration * 7 / 10,
            renew: duration / 5,
            look: duration * 3 / 20,
            request: duration / 4,
        }
    }
}

/// What a lease says, as far as the election looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Record {
    holder: Option<String>,
    renewed: Option<Timestamp>,
    transitions: i32,
    duration: Duration,
}

impl Record {
    fn new(lease: &Lease) -> Self {
        let Some(spec) = &lease.spec else { return Self::default() };
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or_default();
        Self {
            holder: spec.holder_identity.clone().filter(|h| !h.is_empty()),
            renewed: spec.renew_time.as_ref().map(|t| t.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
            duration: Duration::from_secs(seconds),
        }
    }
}

/// A record, and since when it has stood so, by our clock.
#[derive(Debug, Clone)]
struct Observed {
    record: Record,
    since: Instant,
}

/// Whether the lease can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nobody holds it, or its holder has been silent for too long.
    Free,
    /// It is ours.
    Ours,
    /// Another's.
    Held,
}

fn verdict(observed: &Observed, identity: &str, now: Instant) -> Verdict {
    match observed.record.holder.as_deref() {
        None => Verdict::Free,
        Some(holder) if holder == identity => Verdict::Ours,
        Some(_) if now.duration_since(observed.since) > observed.record.duration => Verdict::Free,
        Some(_) => Verdict::Held,
    }
}

/// Why a request about the lease did not work.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no answer from the API server")]
    Timeout,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// A held lease.
#[derive(Debug)]
pub struct Held {
    lease: Lease,
    /// Until then its holder may act.
    deadline: Instant,
}

/// Why a leader leads no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// It could not renew in time.
    Expired,
    /// Another holds the lease now.
    Taken,
}

/// One replica's part in the election.
#[derive(Debug)]
pub struct Election {
    api: Api<Lease>,
    name: String,
    identity: String,
    timing: Timing,
    observed: Option<Observed>,
}

impl Election {
    /// For the lease `name`. `identity` must be new for each process, so that no process takes another's lease for its own.
    pub fn new(api: Api<Lease>, name: &str, identity: String, timing: Timing) -> Self {
        Self { api, name: name.to_owned(), identity, timing, observed: None }
    }

    /// Waits until the lease is ours. Cancelling is safe: a lease taken in that moment runs out by itself.
    pub async fn stand(&mut self) -> Held {
        let mut backoff = Backoff::new(self.timing.look, self.timing.duration);
        loop {
            match self.attempt().await {
                Ok(Some(held)) => return held,
                Ok(None) => {
                    backoff.succeed();
                    sleep(jitter(self.timing.look, random())).await;
                }
                Err(error) => {
                    tracing::warn!(lease = self.name, error = %one_line(&error), "cannot stand for election, trying again");
                    sleep(backoff.fail()).await;
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Option<Held>, Error> {
        let started = Instant::now();
        let found = self.bounded(self.api.get_opt(&self.name)).await?;
        let now = Instant::now();
        let record = found.as_ref().map(Record::new).unwrap_or_default();
        let observed = match self.observed.take() {
            Some(earlier) if earlier.record == record => earlier,
            _ => Observed { record, since: now },
        };
        let verdict = verdict(&observed, &self.identity, now);
        let transitions = observed.record.transitions;
        self.observed = Some(observed);
        if verdict == Verdict::Held {
            return Ok(None);
        }
        let transitions = if verdict == Verdict::Ours { transitions } else { transitions.saturating_add(1) };
        let spec = LeaseSpec {
            acquire_time: Some(MicroTime(Timestamp::now())),
            lease_transitions: Some(transitions),
            ..self.renewed(LeaseSpec::default())
        };
        let params = PostParams::default();
        let written = if let Some(mut lease) = found {
            lease.spec = Some(spec);
            self.bounded(self.api.replace(&self.name, &params, &lease)).await
        } else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            self.bounded(self.api.create(&params, &Lease { metadata, spec: Some(spec) })).await
        };
        match written {
            Ok(lease) => Ok(Some(Held { lease, deadline: started + self.timing.deadline })),
            Err(Error::Api(kube::Error::Api(status))) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews for as long as it works; returns when the holder must have stopped.
    pub async fn keep(&mut self, held: &mut Held) -> Lost {
        loop {
            sleep(self.timing.renew).await;
            loop {
                let started = Instant::now();
                if started >= held.deadline {
                    return Lost::Expired;
                }
                match timeout_at(held.deadline, self.renew(held)).await {
                    Err(_) => return Lost::Expired,
                    Ok(Ok(true)) => {
                        held.deadline = started + self.timing.deadline;
                        break;
                    }
                    Ok(Ok(false)) => return Lost::Taken,
                    Ok(Err(error)) => {
                        tracing::warn!(lease = self.name, error = %one_line(&error), "cannot renew the lease, trying again");
                        let pause = Instant::now() + jitter(self.timing.renew / 2, random());
                        sleep_until(pause.min(held.deadline)).await;
                    }
                }
            }
        }
    }

    /// Whether the lease is still ours, and renewed.
    async fn renew(&self, held: &mut Held) -> Result<bool, Error> {
        for _ in 0..2 {
            let mut lease = held.lease.clone();
            lease.spec = Some(self.renewed(lease.spec.unwrap_or_default()));
            match self.bounded(self.api.replace(&self.name, &PostParams::default(), &lease)).await {
                Ok(lease) => {
                    held.lease = lease;
                    return Ok(true);
                }
                Err(Error::Api(kube::Error::Api(status))) if status.code == 409 || status.code == 404 => {}
                Err(error) => return Err(error),
            }
            // Somebody else wrote it: a renewal of ours whose answer was lost, a person, or the next leader.
            match self.bounded(self.api.get_opt(&self.name)).await? {
                Some(lease) if Record::new(&lease).holder.as_deref() == Some(&self.identity) => held.lease = lease,
                _ => return Ok(false),
            }
        }
        Err(Error::Timeout)
    }

    /// Gives the lease up, so that another replica need not wait for its end. Best effort.
    pub async fn resign(&mut self, held: Held) {
        let mut lease = held.lease;
        let result = async {
            for _ in 0..2 {
                let transitions = lease.spec.as_ref().and_then(|s| s.lease_transitions);
                lease.spec = Some(LeaseSpec { lease_transitions: transitions, ..LeaseSpec::default() });
                match self.bounded(self.api.replace(&self.name, &PostParams::default(), &lease)).await {
                    Err(Error::Api(kube::Error::Api(status))) if status.code == 409 => {}
                    other => return other.map(drop),
                }
                match self.bounded(self.api.get_opt(&self.name)).await? {
                    Some(found) if Record::new(&found).holder.as_deref() == Some(&self.identity) => lease = found,
                    _ => return Ok(()),
                }
            }
            Ok(())
        };
        if let Err(error) = result.await {
            tracing::warn!(lease = self.name, error = %one_line(&error), "cannot give up the lease, it runs out by itself");
        }
        self.observed = None;
    }

    fn renewed(&self, spec: LeaseSpec) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.timing.duration.as_secs()).unwrap_or(i32::MAX)),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..spec
        }
    }

    async fn bounded<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        timeout(self.timing.request, request).await.map_err(|_| Error::Timeout)?.map_err(Error::Api)
    }
}

/// The system has no randomness.
#[derive(Debug, thiserror::Error)]
#[error("cannot read /dev/urandom")]
pub struct NoRandomness(#[from] std::io::Error);

/// An epoch that no other leader ever has.
pub fn new_epoch() -> Result<Epoch, NoRandomness> {
    Ok(Epoch::new(random_hex::<16>()?))
}

/// The name of this process in the lease: the pod's name, and something new for each process.
pub fn new_identity(pod: &str) -> Result<String, NoRandomness> {
    Ok(format!("{pod}_{}", random_hex::<8>()?))
}

fn random_hex<const N: usize>() -> Result<String, NoRandomness> {
    use std::fmt::Write as _;
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests;
