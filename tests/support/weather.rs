//! A way to an API server with weather: below HTTP it can refuse connections or fall silent, and on it a request can be
//! answered in the server's place, come late, or be lost with or without its effect. All that passes is counted.
#![allow(dead_code, reason = "each test file uses a part of it")]

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{Method, Request, StatusCode, header};
use kube::Client;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sky {
    /// They pass.
    Fair,
    /// They are closed at once.
    Refused,
    /// No byte passes; when that ends they are closed.
    Silent,
    /// The same, and those that were there stay silent for ever.
    Dead,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Answered so in the server's place.
    Status(u16),
    /// Answered by something that is no API server.
    Rubbish,
    /// Passed on so much later, whether its sender still waits or not.
    Late(Duration),
    /// It never arrives, and nobody says so.
    Lost,
    /// It arrives, and its answer never does.
    Unanswered,
}

/// A request as it comes.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: String,
    pub(crate) token: String,
}

impl Asked {
    /// Whether the daemon's loop waits for it; watches and Events are beside it.
    pub(crate) fn is_a_step(&self) -> bool {
        self.path != "/api/v1/nodes" && !self.path.contains("/events")
    }

    /// A word for the moment: what was asked for.
    pub(crate) fn name(&self) -> String {
        let word = |key: &str| {
            let steps: Vec<Value> = serde_json::from_str(&self.body).unwrap_or_default();
            let path = format!("/metadata/annotations/machineconfiguration.alauda.io~1{key}");
            let add = steps.into_iter().find(|step| step["op"] == "add" && step["path"] == path);
            add.and_then(|step| step["value"].as_str().and_then(|v| v.split([' ', '-']).next().map(str::to_owned)))
        };
        if self.method == Method::PATCH {
            let words = [word("phase").filter(|p| !p.is_empty()), word("state"), word("desiredDrain")];
            return format!("PATCH {}", words.into_iter().flatten().collect::<Vec<_>>().join(" "));
        }
        format!("GET {}", self.path.rsplit('/').next().unwrap_or_default())
    }
}

type Rule = Box<dyn FnMut(&Asked) -> Option<Fault> + Send>;
type Witness = Box<dyn Fn(&Value) -> Option<String> + Send>;

#[derive(Clone)]
pub(crate) struct Weather(Arc<Shared>);

struct Shared {
    server: Mutex<Client>,
    sky: watch::Sender<Sky>,
    rule: Mutex<Option<Rule>>,
    /// Sees the Node after each patch that was taken.
    witness: Mutex<Option<Witness>>,
    complaints: Mutex<Vec<String>>,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Weather {
    /// Before `server`; the address at which it is reached from now on.
    pub(crate) async fn before(server: Client) -> (Self, SocketAddr) {
        let shared = Shared {
            server: Mutex::new(server),
            sky: watch::channel(Sky::Fair).0,
            rule: Mutex::default(),
            witness: Mutex::default(),
            complaints: Mutex::default(),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
        };
        let this = Self(Arc::new(shared));
        let inner = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let behind = inner.local_addr().unwrap();
        let app = axum::Router::new().fallback(handle).with_state(this.clone());
        tokio::spawn(async move { axum::serve(inner, app).await });
        let outer = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = outer.local_addr().unwrap();
        let below = this.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = outer.accept().await {
                below.0.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(connection(stream, behind, below.0.sky.subscribe()));
            }
        });
        (this, address)
    }

    /// From now on requests are passed on by this one, as whoever it is.
    pub(crate) fn pass_on_by(&self, server: Client) {
        *locked(&self.0.server) = server;
    }

    pub(crate) fn set(&self, sky: Sky) {
        self.0.sky.send_replace(sky);
    }

    /// Decides about each request from now on.
    pub(crate) fn rule(&self, rule: impl FnMut(&Asked) -> Option<Fault> + Send + 'static) {
        *locked(&self.0.rule) = Some(Box::new(rule));
    }

    pub(crate) fn witness(&self, witness: impl Fn(&Value) -> Option<String> + Send + 'static) {
        *locked(&self.0.witness) = Some(Box::new(witness));
    }

    /// What the witness has complained of.
    pub(crate) fn complaints(&self) -> Vec<String> {
        locked(&self.0.complaints).clone()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        locked(&self.0.asked).clone()
    }

    /// Connections and requests so far: what a daemon costs others.
    pub(crate) fn load(&self) -> usize {
        locked(&self.0.asked).len() + self.0.connections.load(Ordering::Relaxed)
    }

    async fn carry(self, request: Request<Body>) -> Response {
        let (mut parts, body) = request.into_parts();
        let body = to_bytes(body, 4 << 20).await.unwrap_or_default();
        let token = parts.headers.get(header::AUTHORIZATION).and_then(|t| t.to_str().ok()).unwrap_or_default();
        let asked = Asked {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
            token: token.to_owned(),
        };
        let fault = locked(&self.0.rule).as_mut().and_then(|rule| rule(&asked));
        locked(&self.0.asked).push(asked.clone());
        match fault {
            Some(Fault::Status(code)) => return status(code),
            Some(Fault::Rubbish) => return "<html>sign in</html>".into_response(),
            Some(Fault::Lost) => return std::future::pending().await,
            Some(Fault::Late(time)) => tokio::time::sleep(time).await,
            Some(Fault::Unanswered) | None => {}
        }
        parts.headers.remove(header::HOST);
        parts.headers.remove(header::AUTHORIZATION);
        let request = Request::from_parts(parts, kube::client::Body::from(body));
        let server = locked(&self.0.server).clone();
        let answer = match server.send(request).await {
            Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
            Ok(answer) => answer,
        };
        let (mut parts, body) = answer.into_parts();
        parts.headers.remove(header::TRANSFER_ENCODING);
        parts.headers.remove(header::CONNECTION);
        let body = if asked.method == Method::PATCH {
            let bytes = body.collect_bytes().await.unwrap_or_default();
            if let (true, Ok(node)) = (parts.status.is_success(), serde_json::from_slice(&bytes)) {
                let complaint = locked(&self.0.witness).as_ref().and_then(|witness| witness(&node));
                locked(&self.0.complaints).extend(complaint);
            }
            Body::from(bytes)
        } else {
            Body::new(body)
        };
        if fault == Some(Fault::Unanswered) {
            return std::future::pending().await;
        }
        Response::from_parts(parts, body)
    }
}

fn status(code: u16) -> Response {
    let reason = match code {
        401 => "Unauthorized",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let object = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": "the weather", "details": {"retryAfterSeconds": 1}});
    let code = StatusCode::from_u16(code).unwrap();
    (code, [(header::RETRY_AFTER, "1"), (header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
}

async fn handle(State(weather): State<Weather>, request: Request<Body>) -> Response {
    // In a task of its own: what is on its way arrives, whether its sender still waits for it or not.
    match tokio::spawn(weather.carry(request)).await {
        Ok(answer) => answer,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn connection(mut stream: TcpStream, behind: SocketAddr, mut sky: watch::Receiver<Sky>) {
    if *sky.borrow() == Sky::Fair {
        let Ok(mut onward) = TcpStream::connect(behind).await else { return };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut stream, &mut onward) => return,
            _ = sky.wait_for(|sky| *sky != Sky::Fair) => {}
        }
    }
    let now = *sky.borrow();
    match now {
        Sky::Fair | Sky::Refused => {}
        Sky::Silent => drop(sky.wait_for(|sky| *sky != Sky::Silent).await),
        Sky::Dead => std::future::pending().await,
    }
}
