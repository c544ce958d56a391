//! The client: where the server is, who asks, and how patiently.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::name::{IdempotencyKey, Tenant};
use bursar_core::refusal::Invalid;
use hyper::Uri;
use hyper::header::HeaderValue;

use crate::http::Http;
use crate::transport::Transport;

/// Asks a server. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
}

pub(crate) struct Shared {
    pub(crate) transport: Box<dyn Transport>,
    /// `http://host:port`, with no slash at its end.
    pub(crate) base: String,
}

/// What differs from call to call.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) token: Option<String>,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) if_match: Option<String>,
    pub(crate) patience: Duration,
    pub(crate) tries: u32,
}

/// How long a call is tried again unless it is said.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a call is tried at most.
const TRIES_MAX: u32 = 20;

impl Client {
    /// A client of the server at this address, such as `http://127.0.0.1:7440`.
    pub fn new(url: &str) -> Result<Client, Invalid> {
        Client::over(Http::new(), url)
    }

    /// The same, over connections of another kind.
    pub fn over(transport: impl Transport, url: &str) -> Result<Client, Invalid> {
        let wrong = |problem: String| Invalid::new("url", problem);
        let uri: Uri = url.parse().map_err(|error| wrong(format!("is not an address: {error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => {
                return Err(wrong("is https, which this build leaves out: turn on the feature tls".into()));
            }
            _ => return Err(wrong("must begin with http:// or https://".into())),
        }
        if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
            return Err(wrong("must name a host, and no user".into()));
        }
        if uri.query().is_some() {
            return Err(wrong("must have no query".into()));
        }
        let base = url.trim_end_matches('/').to_owned();
        let options =
            Options { token: None, tenant: None, key: None, if_match: None, patience: PATIENCE, tries: TRIES_MAX };
        Ok(Client { shared: Arc::new(Shared { transport: Box::new(transport), base }), options })
    }

    /// With the token that says who asks. It is never printed.
    pub fn token(mut self, token: impl Into<String>) -> Client {
        self.options.token = Some(token.into());
        self
    }

    /// For this tenant, which only an operator may choose.
    pub fn tenant(&self, tenant: Tenant) -> Client {
        self.with(|options| options.tenant = Some(tenant))
    }

    /// With this idempotency key for the next write, instead of one that the client makes: the same key has one effect and one
    /// answer, also when the program is started anew in between.
    pub fn key(&self, key: IdempotencyKey) -> Client {
        self.with(|options| options.key = Some(key))
    }

    /// Changes what is defined only if it still is as it was read, see [`Answered::etag`](crate::Answered::etag).
    pub fn if_match(&self, etag: impl Into<String>) -> Client {
        self.with(|options| options.if_match = Some(etag.into()))
    }

    /// How long a call may take with all its tries; half a minute unless it is said. Waiting for jobs comes on top.
    pub fn within(&self, patience: Duration) -> Client {
        self.with(|options| options.patience = patience)
    }

    /// Tries every call once, and makes no keys: for a server in the same process, or where the caller tries again itself.
    pub fn once(&self) -> Client {
        self.with(|options| options.tries = 1)
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Client {
        let mut client = self.clone();
        change(&mut client.options);
        client
    }

    /// Refuses a token that no header can carry.
    pub(crate) fn bearer(&self) -> Result<Option<HeaderValue>, Invalid> {
        let Some(token) = &self.options.token else { return Ok(None) };
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Invalid::new("token", "has characters that no header may have"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// Without the token.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", &self.shared.base).field("tenant", &self.options.tenant).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_lead_nowhere_are_refused() {
        for url in ["", "localhost:1", "ftp://a", "http://", "http://u:p@a", "http://a/?b=c", "http://a b"] {
            assert!(Client::new(url).is_err(), "{url}");
        }
        assert_eq!(Client::new("https://bursar.example").is_ok(), cfg!(feature = "tls"));
        let client = Client::new("http://a:1/under/").unwrap().token("secret-token");
        assert_eq!(client.shared.base, "http://a:1/under");
        assert!(!format!("{client:?}").contains("secret-token"));
    }
}
