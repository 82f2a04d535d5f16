//! How a node's health is asked for: the kubelet by its own check, the API server by whether it answers at all.
//!
//! Each question is asked over a new connection: one that was open before a change can outlive what the change has cut.

use axum::http::{Request, Uri};
use kube::client::Body;
use kube::{Client, Config};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest wait for the kubelet, which is on this very node.
const KUBELET_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the API server: one that takes 10 s for an answer is slow, not away.
pub(in crate::node) const API_TIMEOUT: Duration = Duration::from_secs(15);
/// What a kubelet that is healthy begins its answer with.
const FINE: &[u8] = b"HTTP/1.1 200 ";

/// Whether the kubelet, whose checks are served at `address`, says that it is healthy.
pub async fn kubelet(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut begin = [0; FINE.len()];
        stream.read_exact(&mut begin).await?;
        std::io::Result::Ok(begin == FINE)
    };
    matches!(tokio::time::timeout(KUBELET_TIMEOUT, ask).await, Ok(Ok(true)))
}

/// Whether the API server answers this client, whatever it says: a refusal is an answer.
pub async fn answers(client: &Client) -> bool {
    let Ok(request) = Request::get("/version").body(Body::empty()) else { return false };
    matches!(tokio::time::timeout(API_TIMEOUT, client.send(request)).await, Ok(Ok(_)))
}

/// Whether one of these API servers answers somebody without a name. Nothing secret is sent and nothing that comes back
/// is used, so whose certificate it is does not matter.
pub async fn any_answers(servers: &[String]) -> bool {
    futures::future::join_all(servers.iter().map(|url| answers_nobody(url))).await.contains(&true)
}

async fn answers_nobody(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let mut config = Config::new(url);
    config.accept_invalid_certs = true;
    // Else the host's own would be read, which it may not have.
    config.root_cert = Some(Vec::new());
    config.default_retry = false;
    config.connect_timeout = Some(API_TIMEOUT);
    match Client::try_from(config) {
        Ok(client) => answers(&client).await,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Answers every request on a port of its own like this.
    async fn serving(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    async fn nobody() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn a_kubelet_is_healthy_only_when_it_says_so() {
        assert!(kubelet(serving("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await).await);
        assert!(!kubelet(serving("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n").await).await);
        assert!(!kubelet(serving("").await).await);
        assert!(!kubelet(nobody().await).await);
    }

    #[tokio::test]
    async fn any_answer_of_an_api_server_counts_and_none_does_not() {
        for answer in
            ["200 OK", "401 Unauthorized", "403 Forbidden", "429 Too Many Requests", "503 Service Unavailable"]
        {
            let whole = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let url = format!("http://{}", serving(Box::leak(whole.into_boxed_str())).await);
            assert!(any_answers(std::slice::from_ref(&url)).await, "{answer}");
            let gone = format!("http://{}", nobody().await);
            assert!(any_answers(&[gone.clone(), url]).await, "one of two");
            assert!(!any_answers(&[gone]).await);
        }
        assert!(!any_answers(&["no URL".to_owned()]).await);
        assert!(!any_answers(&[]).await);
    }
}
