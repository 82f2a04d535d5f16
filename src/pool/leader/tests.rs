use super::*;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// An API server with one lease. While `away` nothing is answered.
#[derive(Debug, Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    away: bool,
}

type Shared = Arc<Mutex<Server>>;

fn api(server: &Shared) -> Api<Lease> {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap();
            if server.lock().unwrap().away {
                std::future::pending::<()>().await;
            }
            let (code, text) = server.lock().unwrap().answer(&head.method, &bytes);
            let answer = Response::builder().status(code).body(Body::from(text.to_string().into_bytes())).unwrap();
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    Api::namespaced(Client::new(service, "mcx-system"), "mcx-system")
}

impl Server {
    fn answer(&mut self, method: &Method, body: &[u8]) -> (u16, Value) {
        let refusal = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code});
            (code, status)
        };
        if *method == Method::GET {
            return self.lease.clone().map_or_else(|| refusal(404), |l| (200, l));
        }
        let mut sent: Value = serde_json::from_slice(body).unwrap();
        let current = self.lease.as_ref().map(|l| l["metadata"]["resourceVersion"].clone());
        if *method == Method::POST && current.is_some() || *method == Method::PUT && current.is_none() {
            return refusal(if current.is_some() { 409 } else { 404 });
        }
        if *method == Method::PUT && Some(&sent["metadata"]["resourceVersion"]) != current.as_ref() {
            return refusal(409);
        }
        self.version += 1;
        sent["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(sent.clone());
        (200, sent)
    }

    fn holder(&self) -> Option<&str> {
        self.lease.as_ref()?["spec"]["holderIdentity"].as_str()
    }
}

fn election(server: &Shared, identity: &str) -> Election {
    Election::new(api(server), "lease", identity.to_owned(), Timing::new(Duration::from_secs(10)))
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_next_takes_over_within_15_s_of_its_death() {
    let server = Shared::default();
    let (mut a, mut b) = (election(&server, "a"), election(&server, "b"));
    let mut held = a.stand().await;
    let alive = async {
        tokio::select! {
            lost = a.keep(&mut held) => panic!("{lost:?}"),
            () = sleep(Duration::from_secs(60)) => Instant::now(),
        }
    };
    let next = async {
        let held = b.stand().await;
        (Instant::now(), held)
    };
    let (died, (took, _)) = tokio::join!(alive, next);
    let gap = took - died;
    assert!(gap >= Duration::from_secs(7) && gap <= Duration::from_secs(15), "{gap:?}");
    assert_eq!(server.lock().unwrap().holder(), Some("b"));
    assert_eq!(server.lock().unwrap().lease.as_ref().unwrap()["spec"]["leaseTransitions"], 2);
}

#[tokio::test(start_paused = true)]
async fn r_177_a_leader_that_cannot_renew_stops_before_another_can_start() {
    for cut_after in [0_u64, 1900, 2100, 5300, 9990] {
        let server = Shared::default();
        let (mut a, mut b) = (election(&server, "a"), election(&server, "b"));
        let mut held = a.stand().await;
        let lost = async {
            let lost = a.keep(&mut held).await;
            (lost, Instant::now())
        };
        let cut = async {
            sleep(Duration::from_millis(cut_after)).await;
            server.lock().unwrap().away = true;
            // Only the network of the first is cut; the second is served again before it could notice.
            sleep(Duration::from_secs(8)).await;
            server.lock().unwrap().away = false;
        };
        let next = async {
            sleep(Duration::from_millis(cut_after / 2)).await;
            b.stand().await;
            Instant::now()
        };
        let ((lost, stopped), (), started) = tokio::join!(lost, cut, next);
        assert_eq!(lost, Lost::Expired);
        assert!(stopped < started, "cut after {cut_after} ms: stopped {:?} too late", stopped - started);
    }
}

#[tokio::test(start_paused = true)]
async fn r_178_a_leader_that_resigns_is_followed_at_once() {
    let server = Shared::default();
    let (mut a, mut b) = (election(&server, "a"), election(&server, "b"));
    let held = a.stand().await;
    assert!(timeout(Duration::from_secs(5), b.stand()).await.is_err(), "the lease is held");
    a.resign(held).await;
    assert_eq!(server.lock().unwrap().holder(), None);
    let begun = Instant::now();
    b.stand().await;
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_judged_by_our_clock_whatever_times_are_in_it() {
    for renewed in ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"] {
        let server = Shared::default();
        server.lock().unwrap().lease = Some(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "lease", "resourceVersion": "0"},
            "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 10, "renewTime": renewed}
        }));
        let begun = Instant::now();
        election(&server, "a").stand().await;
        let waited = begun.elapsed();
        assert!(waited > Duration::from_secs(10) && waited < Duration::from_secs(13), "{renewed}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_that_take_a_free_lease_at_once_one_gets_it() {
    let server = Shared::default();
    let (mut a, mut b) = (election(&server, "a"), election(&server, "b"));
    let (a, b) = tokio::join!(timeout(Duration::from_secs(5), a.stand()), timeout(Duration::from_secs(5), b.stand()));
    assert!(a.is_ok() != b.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_took_or_somebody_deleted_is_lost() {
    for holder in [Some("other"), None] {
        let server = Shared::default();
        let mut a = election(&server, "a");
        let mut held = a.stand().await;
        let spoil = async {
            sleep(Duration::from_secs(3)).await;
            let mut server = server.lock().unwrap();
            server.version += 1;
            let version = server.version.to_string();
            server.lease = holder.map(
                |h| json!({"metadata": {"name": "lease", "resourceVersion": version}, "spec": {"holderIdentity": h}}),
            );
        };
        let (lost, ()) = tokio::join!(a.keep(&mut held), spoil);
        assert_eq!(lost, Lost::Taken);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_a_person_touched_is_still_ours() {
    let server = Shared::default();
    let mut a = election(&server, "a");
    let mut held = a.stand().await;
    let touch = async {
        sleep(Duration::from_secs(3)).await;
        let mut server = server.lock().unwrap();
        server.version += 1;
        let version = server.version.to_string();
        server.lease.as_mut().unwrap()["metadata"]["resourceVersion"] = json!(version);
    };
    let (kept, ()) = tokio::join!(timeout(Duration::from_secs(30), a.keep(&mut held)), touch);
    assert!(kept.is_err(), "{kept:?}");
}

#[test]
fn epochs_and_identities_are_never_repeated() {
    assert_ne!(new_epoch().unwrap(), new_epoch().unwrap());
    assert_eq!(new_epoch().unwrap().as_str().len(), 32);
    let (a, b) = (new_identity("pod-1").unwrap(), new_identity("pod-1").unwrap());
    assert!(a != b && a.starts_with("pod-1_"));
}
