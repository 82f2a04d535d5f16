//! The client with which controller, daemon and commands talk to the API server: nothing waits for ever on a connection
//! on which no byte comes any more, and a token that lies in a file is never older than that file.
//!
//! How long one request may take, and what is tried again, is the business of who makes it.

use axum::http::{HeaderValue, Request, header};
use kube::client::{AuthError, Body, ClientBuilder};
use kube::{Client, Config};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tower::util::MapRequestLayer;

/// A watch is begun anew this often, in seconds; a server that has nothing to say then ends it.
pub const WATCH_SECONDS: u32 = 60;
/// A connection from which nothing has come for so long is dead: an answer that has not begun, or a watch past its end.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 15);

/// A client without retries of its own.
pub fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    config.read_timeout.get_or_insert(SILENCE);
    // A connection that was idle is not late with the answer to a request that was sent just now.
    config.reset_reader_on_write = true;
    let Some(path) = config.auth_info.token_file.take() else { return Client::try_from(config) };
    config.auth_info.token = None;
    let file = TokenFile::open(PathBuf::from(path))?;
    let with_token = move |mut request: Request<Body>| {
        if let Some(token) = file.header() {
            request.headers_mut().insert(header::AUTHORIZATION, token);
        }
        request
    };
    Ok(ClientBuilder::try_from(config)?.with_layer(&MapRequestLayer::new(with_token)).build())
}

/// A file with a bearer token that somebody renews. It is read for each request: the client's own way is to look at a
/// clock, and one that is set back by a year would keep a token that has long expired.
#[derive(Clone)]
struct TokenFile {
    path: Arc<Path>,
    last: Arc<Mutex<Option<HeaderValue>>>,
}

impl TokenFile {
    fn open(path: PathBuf) -> kube::Result<Self> {
        let text = read(&path).map_err(|error| kube::Error::Auth(AuthError::ReadTokenFile(error, path.clone())))?;
        let header = bearer(&text).map_err(|error| kube::Error::Auth(AuthError::InvalidBearerToken(error)))?;
        Ok(Self { path: path.into(), last: Arc::new(Mutex::new(Some(header))) })
    }

    /// What is in the file now; while it is absent, empty or no token, as in the middle of a renewal, the last one.
    fn header(&self) -> Option<HeaderValue> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(header) = read(&self.path).ok().filter(|text| !text.trim().is_empty()).and_then(|t| bearer(&t).ok())
        {
            *last = Some(header);
        }
        last.clone()
    }
}

#[allow(clippy::disallowed_methods, reason = "this process's own credentials, not a file of the node's root")]
fn read(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

/// Files that people and tools write end with a newline, which no header may hold.
fn bearer(token: &str) -> Result<HeaderValue, axum::http::header::InvalidHeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {}", token.trim()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_older_than_its_file_whatever_the_clock_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let file = TokenFile::open(path.clone()).unwrap();
        assert_eq!(file.header().unwrap(), "Bearer one");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(file.clone().header().unwrap(), "Bearer two");
        for in_the_middle in ["", "\n", "no\x07token"] {
            std::fs::write(&path, in_the_middle).unwrap();
            assert_eq!(file.header().unwrap(), "Bearer two", "{in_the_middle:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.header().unwrap(), "Bearer two");
        std::fs::write(&path, "three\n").unwrap();
        assert_eq!(file.header().unwrap(), "Bearer three");
        assert!(!format!("{:?}", file.header()).contains("three"), "it is never shown");
    }

    #[test]
    fn without_the_file_there_is_no_client_and_the_error_names_it() {
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        config.auth_info.token_file = Some("/nowhere/token".into());
        let Err(error) = client(config) else { panic!("made a client") };
        assert!(error.to_string().contains("/nowhere/token"), "{error}");
    }
}
