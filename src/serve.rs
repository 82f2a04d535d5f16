//! `/metrics`, `/healthz` and `/readyz` of the controller and the daemon.
//!
//! `/healthz` says that the process answers, `/readyz` that it knows what it needs to know; neither asks the API
//! server, so that an outage there does not restart a fleet.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use prometheus_client::registry::Registry;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What a scraper is told about the body of `/metrics`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("cannot listen on {addr} for metrics and probes; choose another address with --listen")]
    Bind {
        /// As given.
        addr: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The listener broke.
    #[error("cannot serve metrics and probes any longer")]
    Serve(#[source] std::io::Error),
}

/// Serves on `addr` until dropped. `ready` is asked on each probe.
pub async fn serve(
    addr: SocketAddr,
    registry: Arc<Registry>,
    ready: impl Fn() -> bool + Clone + Send + Sync + 'static,
) -> Result<(), Error> {
    serve_on(bind(addr).await?, registry, ready).await
}

/// Takes the address. Apart from [`serve_on`] so that a taken one is found at start.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(addr).await.map_err(|source| Error::Bind { addr, source })
}

/// As [`serve`], on a listener.
pub async fn serve_on(
    listener: TcpListener,
    registry: Arc<Registry>,
    ready: impl Fn() -> bool + Clone + Send + Sync + 'static,
) -> Result<(), Error> {
    axum::serve(listener, router(registry, ready)).await.map_err(Error::Serve)
}

/// The three paths.
pub fn router(registry: Arc<Registry>, ready: impl Fn() -> bool + Clone + Send + Sync + 'static) -> Router {
    let metrics = move || {
        let registry = Arc::clone(&registry);
        async move {
            let mut text = String::new();
            match prometheus_client::encoding::text::encode(&mut text, &registry) {
                Ok(()) => (StatusCode::OK, [(header::CONTENT_TYPE, OPEN_METRICS)], text),
                Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], String::new()),
            }
        }
    };
    let readyz = move || {
        let ready = ready.clone();
        async move { if ready() { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") } }
    };
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tower::ServiceExt as _;

    async fn ask(router: &Router, path: &str) -> (StatusCode, String) {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        (status, String::from_utf8(to_bytes(answer.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn ready_follows_the_question_and_health_does_not() {
        let up = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&up);
        let mut registry = Registry::default();
        let counter = prometheus_client::metrics::counter::Counter::<u64>::default();
        registry.register("seen", "Seen", counter.clone());
        counter.inc();
        let router = router(Arc::new(registry), move || asked.load(Ordering::Relaxed));
        assert_eq!(ask(&router, "/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ask(&router, "/healthz").await.0, StatusCode::OK);
        up.store(true, Ordering::Relaxed);
        assert_eq!(ask(&router, "/readyz").await.0, StatusCode::OK);
        let (status, text) = ask(&router, "/metrics").await;
        assert!(status == StatusCode::OK && text.contains("seen_total 1") && text.ends_with("# EOF\n"), "{text}");
        assert_eq!(ask(&router, "/else").await.0, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn a_taken_address_is_named_with_the_way_out() {
        let first = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let error = bind(first.local_addr().unwrap()).await.unwrap_err();
        assert!(error.to_string().contains("--listen"), "{error}");
    }
}
