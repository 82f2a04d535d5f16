//! A way to the API server on which one request, or one answer, can be stopped together with its sender.
//!
//! A process that is given [`Gate::kubeconfig`] speaks plain HTTP to the gate, which passes everything on as the
//! administrator, watches included, and keeps a list of all writes. What is on its way arrives, whether its sender
//! still waits for it or not: as on a network.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{Method, Request, StatusCode, header};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Largest request body, in bytes; the API server takes no larger ones.
const BODY_LIMIT: usize = 4 << 20;

/// A request as the gate sees it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// A write, and what the API server answered.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) asked: Asked,
    pub(crate) status: StatusCode,
}

/// Which half of an exchange is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The request: the API server has not seen it.
    Request,
    /// The answer: the API server has done it, and the sender does not know.
    Answer,
}

/// Recognizes a request.
pub(crate) type Step = fn(&Asked) -> bool;

/// A trap that was set.
struct Set {
    sender: Pid,
    /// The requests in their order; the last one is held.
    steps: Vec<Step>,
    passed: usize,
    held: Held,
}

/// What goes with the exchange that is held.
struct Held {
    hold: Hold,
    caught: Sender<()>,
    release: oneshot::Receiver<()>,
    answered: Sender<StatusCode>,
}

/// The test's side of a trap.
pub(crate) struct Trap {
    caught: Receiver<()>,
    release: Option<oneshot::Sender<()>>,
    answered: Receiver<StatusCode>,
}

impl Trap {
    /// Waits until the exchange is held and its sender stands still.
    pub(crate) fn caught(&self, limit: Duration) {
        self.caught.recv_timeout(limit).expect("the request that is waited for was never made");
    }

    /// Lets it go on; what the API server answers.
    pub(crate) fn release(&mut self, limit: Duration) -> StatusCode {
        let release = self.release.take().expect("it is released once");
        release.send(()).expect("the exchange is held");
        self.answered.recv_timeout(limit).expect("the API server answers")
    }
}

#[derive(Clone)]
struct Way {
    client: Client,
    set: Arc<Mutex<Option<Set>>>,
    writes: Arc<Mutex<Vec<Write>>>,
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The gate; it closes when dropped.
pub(crate) struct Gate {
    way: Way,
    folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Gate {
    /// In front of the cluster of this kubeconfig, as its user.
    pub(crate) fn open(kubeconfig: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (way, address) = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
            let mut config =
                kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
            config.default_retry = false;
            let way = Way { client: Client::try_from(config).unwrap(), set: Arc::default(), writes: Arc::default() };
            let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let router = Router::new().fallback(handle).with_state(way.clone());
            tokio::spawn(async move { axum::serve(listener, router).await });
            (way, address)
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), text(address)).unwrap();
        Self { way, folder, _runtime: runtime }
    }

    /// For the process whose requests pass here.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Sets a trap: when `sender` has made these requests in this order, whatever else it asks in between, it is
    /// stopped with SIGSTOP at the last of them, which is held.
    pub(crate) fn trap(&self, sender: Pid, steps: &[Step], hold: Hold) -> Trap {
        let (caught, is_caught) = channel();
        let (go, release) = oneshot::channel();
        let (answered, status) = channel();
        let set = Set { sender, steps: steps.to_vec(), passed: 0, held: Held { hold, caught, release, answered } };
        *locked(&self.way.set) = Some(set);
        Trap { caught: is_caught, release: Some(go), answered: status }
    }

    /// All writes so far that the API server has answered.
    pub(crate) fn writes(&self) -> Vec<Write> {
        locked(&self.way.writes).clone()
    }
}

fn text(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: gate\n\
         clusters: [{{name: gate, cluster: {{server: 'http://{address}'}}}}]\n\
         contexts: [{{name: gate, context: {{cluster: gate, user: gate}}}}]\n\
         users: [{{name: gate, user: {{}}}}]\n"
    )
}

impl Way {
    /// What goes with this request if it is the one to hold; its sender is stopped at once.
    fn catch(&self, asked: &Asked) -> Option<Held> {
        let mut set = locked(&self.set);
        let trap = set.as_mut()?;
        if !trap.steps[trap.passed](asked) {
            return None;
        }
        trap.passed += 1;
        if trap.passed < trap.steps.len() {
            return None;
        }
        let trap = set.take()?;
        kill(trap.sender, Signal::SIGSTOP).expect("the sender is there");
        Some(trap.held)
    }

    async fn carry(self, request: Request<Body>) -> Response {
        let (mut parts, body) = request.into_parts();
        let Ok(body) = to_bytes(body, BODY_LIMIT).await else { return StatusCode::BAD_REQUEST.into_response() };
        let text = String::from_utf8_lossy(&body).into_owned();
        let asked = Asked { method: parts.method.clone(), path: parts.uri.path().to_owned(), body: text };
        let mut held = self.catch(&asked);
        if let Some(Held { hold: Hold::Request, caught, release, .. }) = &mut held {
            let _ = caught.send(());
            let _ = release.await;
        }
        parts.headers.remove(header::HOST);
        let request = Request::from_parts(parts, kube::client::Body::from(body));
        let answer = match self.client.send(request).await {
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
            Ok(answer) => {
                let (mut parts, body) = answer.into_parts();
                // How the bytes are framed is between two neighbours.
                parts.headers.remove(header::TRANSFER_ENCODING);
                parts.headers.remove(header::CONNECTION);
                Response::from_parts(parts, Body::new(body))
            }
        };
        if asked.method != Method::GET {
            locked(&self.writes).push(Write { asked, status: answer.status() });
        }
        if let Some(Held { hold, caught, release, answered }) = held {
            if hold == Hold::Answer {
                let _ = caught.send(());
                let _ = release.await;
            }
            let _ = answered.send(answer.status());
        }
        answer
    }
}

async fn handle(State(way): State<Way>, request: Request<Body>) -> Response {
    // In a task of its own, which goes on when the sender hangs up.
    match tokio::spawn(way.carry(request)).await {
        Ok(answer) => answer,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
