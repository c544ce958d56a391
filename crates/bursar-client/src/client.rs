//! The client and its options: server, token, tenant, idempotency key and timeout.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::name::{IdempotencyKey, Tenant};
use bursar_core::refusal::Invalid;
use hyper::Uri;
use hyper::header::HeaderValue;

use crate::http::Http;
use crate::transport::Transport;

/// A client of a Bursar server. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
}

pub(crate) struct Shared {
    pub(crate) transport: Box<dyn Transport>,
    /// The URL of the server without a slash at its end.
    pub(crate) base: String,
}

/// The options of calls.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) token: Option<String>,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) if_match: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) attempts_max: u32,
}

/// The default timeout of a call with all its attempts.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of attempts of a call.
const ATTEMPTS_MAX: u32 = 20;

impl Client {
    /// A client of the server at a URL, such as `http://127.0.0.1:7440`.
    pub fn new(url: &str) -> Result<Client, Invalid> {
        Client::over(Http::new(), url)
    }

    /// A client that sends its requests with `transport`.
    pub fn over(transport: impl Transport, url: &str) -> Result<Client, Invalid> {
        let invalid = |problem: String| Invalid::new("url", problem);
        let uri: Uri = url.parse().map_err(|error| invalid(format!("is not a valid URL: {error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => {
                return Err(invalid("uses https, which needs the feature `tls` of bursar-client".into()));
            }
            _ => return Err(invalid("must begin with http:// or https://".into())),
        }
        if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
            return Err(invalid("must name a host and must not contain a user".into()));
        }
        if uri.query().is_some() {
            return Err(invalid("must not have a query".into()));
        }
        let base = url.trim_end_matches('/').to_owned();
        let options = Options {
            token: None,
            tenant: None,
            key: None,
            if_match: None,
            timeout: TIMEOUT,
            attempts_max: ATTEMPTS_MAX,
        };
        Ok(Client { shared: Arc::new(Shared { transport: Box::new(transport), base }), options })
    }

    /// Sets the token that authenticates the caller. The client never logs it.
    pub fn token(mut self, token: impl Into<String>) -> Client {
        self.options.token = Some(token.into());
        self
    }

    /// Returns a client for another tenant; only an operator may choose one.
    pub fn tenant(&self, tenant: Tenant) -> Client {
        self.with(|options| options.tenant = Some(tenant))
    }

    /// Returns a client whose next write has this idempotency key instead of a generated one. A caller that stores the key can repeat the
    /// write after a restart: it has one effect, and every repetition returns the first answer.
    pub fn key(&self, key: IdempotencyKey) -> Client {
        self.with(|options| options.key = Some(key))
    }

    /// Returns a client that changes a definition only if it still has this ETag, see [`Answered::etag`](crate::Answered::etag).
    pub fn if_match(&self, etag: impl Into<String>) -> Client {
        self.with(|options| options.if_match = Some(etag.into()))
    }

    /// Returns a client whose calls, with all attempts, take at most `timeout`; default: 30 seconds. The time that a call waits for jobs is
    /// added.
    pub fn within(&self, timeout: Duration) -> Client {
        self.with(|options| options.timeout = timeout)
    }

    /// Returns a client that makes one attempt and generates no idempotency keys, for a server in the same process or a caller that retries
    /// itself.
    pub fn once(&self) -> Client {
        self.with(|options| options.attempts_max = 1)
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Client {
        let mut client = self.clone();
        change(&mut client.options);
        client
    }

    /// Returns the `Authorization` header; refuses a token with characters that are not allowed in a header.
    pub(crate) fn bearer(&self) -> Result<Option<HeaderValue>, Invalid> {
        let Some(token) = &self.options.token else { return Ok(None) };
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Invalid::new("token", "has characters that are not allowed in an HTTP header"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// Leaves out the token.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", &self.shared.base).field("tenant", &self.options.tenant).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_urls_are_refused() {
        for url in ["", "localhost:1", "ftp://a", "http://", "http://u:p@a", "http://a/?b=c", "http://a b"] {
            assert!(Client::new(url).is_err(), "{url}");
        }
        assert_eq!(Client::new("https://bursar.example").is_ok(), cfg!(feature = "tls"));
        let client = Client::new("http://a:1/under/").unwrap().token("secret-token");
        assert_eq!(client.shared.base, "http://a:1/under");
        assert!(!format!("{client:?}").contains("secret-token"));
    }
}
