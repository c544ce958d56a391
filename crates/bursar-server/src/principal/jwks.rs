//! The keys of an identity provider that sign JWTs: a JSON Web Key Set (RFC 7517), in a file or at an address.
//!
//! One task reads the set: at the start, whenever it is due, and when a token names a key that is not in it. A request waits for that
//! reading for a short time only. Reads have a minimum distance, so that tokens with made-up keys cause no load on
//! the provider. A set that cannot be read changes nothing: the keys of the last one stay, and nothing else is accepted.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::Uri;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bursar_client::{Bytes, Http, Request, Transport};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::jwt::JwtKey;

/// The most bytes of a key set.
const BYTES_MAX: usize = 256 << 10;
/// The most keys of a key set.
const KEYS_MAX: usize = 100;
/// How long after a failed reading the set is read again.
const RETRY: Duration = Duration::from_secs(10);
/// The most requests that wait for the set to be read at once.
const WAITERS_MAX: usize = 64;

/// Where a key set is, and how often it is read.
#[derive(Clone, Debug)]
pub struct JwksSettings {
    /// Where it is.
    pub source: JwksSource,
    /// How long after a successful reading it is read again.
    pub refresh: Duration,
    /// The minimum time between two readings.
    pub pause: Duration,
    /// The most time that a reading may take, and that a request waits for one.
    pub timeout: Duration,
}

impl JwksSettings {
    /// Returns settings that read the set every 15 minutes, at most every 10 seconds and in at most 5 seconds.
    pub fn new(source: JwksSource) -> JwksSettings {
        let [refresh, pause, timeout] = [900, 10, 5].map(Duration::from_secs);
        JwksSettings { source, refresh, pause, timeout }
    }
}

/// Where a key set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// In a file.
    File(PathBuf),
    /// At an address; from [`JwksSource::at`].
    Address(Uri),
}

/// Why a key set was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum JwksError {
    #[error("the address of a key set must be https://…, or http://… on a loopback address")]
    BadAddress,
    #[error("the file cannot be read: {0}")]
    File(String),
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server has answered {0}, not 200; redirects are not followed")]
    Status(u16),
    #[error("it took too long")]
    Timeout,
    #[error("it has more than {} KiB", BYTES_MAX >> 10)]
    TooLarge,
    #[error("it is not a JSON Web Key Set with at most {KEYS_MAX} keys")]
    Malformed,
}

impl JwksSource {
    /// Returns the source at an address. Without TLS, only a loopback address is allowed.
    pub fn at(address: &str) -> Result<JwksSource, JwksError> {
        let uri: Uri = address.parse().map_err(|_| JwksError::BadAddress)?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        // A password in an address would be shown with the configuration.
        let named = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        match uri.scheme_str() {
            _ if named => Err(JwksError::BadAddress),
            Some("https") if !host.is_empty() => Ok(JwksSource::Address(uri)),
            Some("http") if loopback => Ok(JwksSource::Address(uri)),
            _ => Err(JwksError::BadAddress),
        }
    }

    async fn read(&self, http: &Http) -> Result<Vec<u8>, JwksError> {
        match self {
            JwksSource::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                read.map_err(|error| JwksError::File(error.to_string()))?
            }
            JwksSource::Address(uri) => fetch(http, uri).await,
        }
    }
}

fn read_file(path: &std::path::Path) -> Result<Vec<u8>, JwksError> {
    use std::io::Read;
    let failed = |error: std::io::Error| JwksError::File(error.to_string());
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() > BYTES_MAX { Err(JwksError::TooLarge) } else { Ok(text) }
}

async fn fetch(http: &Http, uri: &Uri) -> Result<Vec<u8>, JwksError> {
    let unreachable = |error: bursar_client::TransportError| JwksError::Unreachable(error.to_string());
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = uri.clone();
    request.headers_mut().insert("accept", axum::http::HeaderValue::from_static("application/json"));
    let response = http.send(request).await.map_err(unreachable)?;
    if response.status().as_u16() != 200 {
        return Err(JwksError::Status(response.status().as_u16()));
    }
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(unreachable)?.into_data() else { continue };
        if text.len() + data.len() > BYTES_MAX {
            return Err(JwksError::TooLarge);
        }
        text.extend(data);
    }
    Ok(text)
}

/// A key with its id.
type NamedKey = (Option<String>, JwtKey);

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

/// A JSON Web Key, as far as it concerns signatures.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
}

impl Jwk {
    /// Returns the key; `None` if it is of another kind than RSA and Ed25519, or not for signatures. A symmetric key in a set would be
    /// public, so it is none.
    fn key(&self) -> Option<JwtKey> {
        let decode = |part: &Option<String>| URL_SAFE_NO_PAD.decode(part.as_deref()?).ok();
        let is_for = |algorithm: &str| self.alg.as_deref().is_none_or(|given| given == algorithm);
        match (self.kty.as_str(), self.crv.as_deref()) {
            _ if self.usage.as_deref().is_some_and(|usage| usage != "sig") => None,
            ("RSA", _) if is_for("RS256") => JwtKey::rsa(&decode(&self.n)?, &decode(&self.e)?),
            ("OKP", Some("Ed25519")) if is_for("EdDSA") => JwtKey::ed25519(&decode(&self.x)?),
            _ => None,
        }
    }
}

/// Reads a key set. Keys of other kinds are left out.
fn parse(text: &[u8]) -> Result<Vec<NamedKey>, JwksError> {
    let Document { keys } = serde_json::from_slice(text).map_err(|_| JwksError::Malformed)?;
    if keys.len() > KEYS_MAX {
        return Err(JwksError::Malformed);
    }
    let key = |value: Value| {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        Some((jwk.kid.clone(), jwk.key()?))
    };
    Ok(keys.into_iter().filter_map(key).collect())
}

/// The key set of an identity provider.
pub(crate) struct Jwks {
    settings: JwksSettings,
    http: Http,
    keys: Mutex<Arc<Vec<NamedKey>>>,
    asked: Notify,
    /// The readings that have started and ended, and when the last one did.
    readings: watch::Sender<Readings>,
    waiters: Semaphore,
}

/// Counts of readings since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readings {
    pub(crate) good: u64,
    pub(crate) failed: u64,
    started: u64,
    last: Option<Instant>,
}

impl Readings {
    fn ended(&self) -> u64 {
        self.good + self.failed
    }

    /// Whether none is under way.
    fn is_idle(&self) -> bool {
        self.started == self.ended()
    }
}

impl Jwks {
    /// A set that is not read yet. A file that cannot be read is an error.
    pub(crate) async fn open(settings: JwksSettings) -> Result<Jwks, JwksError> {
        let jwks = Jwks {
            settings,
            http: Http::new(),
            keys: Mutex::default(),
            asked: Notify::new(),
            readings: watch::Sender::default(),
            waiters: Semaphore::new(WAITERS_MAX),
        };
        if matches!(jwks.settings.source, JwksSource::File(_)) {
            let text = timeout(jwks.settings.timeout, jwks.settings.source.read(&jwks.http)).await;
            jwks.set(parse(&text.unwrap_or(Err(JwksError::Timeout))?)?);
        }
        Ok(jwks)
    }

    /// Reads the set now, whenever it is due, and when a key is missing.
    pub(crate) async fn run(&self) {
        let JwksSettings { refresh, pause, .. } = self.settings;
        let pause = pause.min(refresh);
        loop {
            self.readings.send_modify(|readings| readings.started += 1);
            let good = self.read().await;
            let now = Instant::now();
            self.readings.send_modify(|readings| {
                *if good { &mut readings.good } else { &mut readings.failed } += 1;
                readings.last = Some(now);
            });
            sleep(pause).await;
            let due = if good { refresh } else { refresh.min(RETRY) };
            let _ = timeout(due.saturating_sub(pause), self.asked.notified()).await;
        }
    }

    async fn read(&self) -> bool {
        let reading = timeout(self.settings.timeout, self.settings.source.read(&self.http)).await;
        let parsed = reading.unwrap_or(Err(JwksError::Timeout)).and_then(|text| parse(&text));
        match parsed {
            Ok(keys) => {
                if keys.is_empty() {
                    tracing::warn!("the key set of the identity provider has no usable key, so it accepts no token");
                }
                self.set(keys);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the key set of the identity provider was not read; the last one stays, retrying");
                false
            }
        }
    }

    fn set(&self, keys: Vec<NamedKey>) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    fn keys(&self) -> Arc<Vec<NamedKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the keys that may have signed a token with this key id. If there are none, waits until the set is read again, unless it was
    /// read only just now.
    pub(crate) async fn candidates(&self, kid: Option<&str>) -> Vec<JwtKey> {
        let found = of_id(&self.keys(), kid);
        if !found.is_empty() {
            return found;
        }
        let JwksSettings { pause, timeout: patience, .. } = self.settings;
        let mut readings = self.readings.subscribe();
        let seen = *readings.borrow_and_update();
        let Readings { started, last, .. } = seen;
        // A reading that has started already may have been too early for the key. The next one comes after the pause.
        let needed = if seen.is_idle() || pause < patience { started + 1 } else { started };
        self.asked.notify_one();
        let pausing = last.is_some_and(|last| last.elapsed() < pause);
        let Some(_waiting) = self.waiters.try_acquire().ok().filter(|_| !pausing) else {
            return of_id(&self.keys(), kid);
        };
        let until = Instant::now() + patience;
        loop {
            let changed = timeout_at(until, readings.changed()).await;
            let found = of_id(&self.keys(), kid);
            if !found.is_empty() || !matches!(changed, Ok(Ok(()))) || readings.borrow_and_update().ended() >= needed {
                return found;
            }
        }
    }

    /// Returns the number of keys, and the counts of readings.
    pub(crate) fn figures(&self) -> (usize, Readings) {
        (self.keys().len(), *self.readings.borrow())
    }
}

/// Returns the keys of an id. A token without one can be signed by the only key of the set.
fn of_id(keys: &[NamedKey], kid: Option<&str>) -> Vec<JwtKey> {
    match (kid, keys) {
        (None, [(_, only)]) => vec![only.clone()],
        (None, _) => Vec::new(),
        (kid, keys) => keys.iter().filter(|(named, _)| named.as_deref() == kid).map(|(_, key)| key.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unknown_key_waits_for_the_reading_that_it_asks_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let set = |kid: &str| {
            let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
            std::fs::write(&path, json!({ "keys": [key] }).to_string()).unwrap();
        };
        set("first");
        // The pause is longer than the patience, as in production.
        let settings = JwksSettings::new(JwksSource::File(path.clone()));
        assert!(settings.pause > settings.timeout);
        let pause = settings.pause;
        let jwks = Arc::new(Jwks::open(settings).await.unwrap());
        let mut readings = jwks.readings.subscribe();
        tokio::spawn({
            let jwks = jwks.clone();
            async move { jwks.run().await }
        });
        readings.wait_for(|readings| readings.good == 1).await.unwrap();
        set("second");
        tokio::time::advance(pause + Duration::from_secs(1)).await;
        assert_eq!(jwks.candidates(Some("second")).await.len(), 1, "the first token with a new key is verified");
        assert_eq!(jwks.candidates(Some("first")).await.len(), 0);
    }

    #[test]
    fn addresses_without_tls_must_be_on_this_machine() {
        for good in ["https://id.example/keys", "http://127.0.0.1:80/k", "http://localhost/", "http://[::1]:9/k"] {
            assert!(matches!(JwksSource::at(good), Ok(JwksSource::Address(_))), "{good}");
        }
        for bad in [
            "http://id.example/keys",
            "http://10.0.0.7/",
            "ftp://127.0.0.1/",
            "/keys",
            "",
            "https:///keys",
            "http://127.0.0.1.evil.example/",
            "https://me:secret@id.example/",
        ] {
            assert_eq!(JwksSource::at(bad), Err(JwksError::BadAddress), "{bad}");
        }
    }

    #[test]
    fn only_public_keys_for_signatures_are_read() {
        let x = URL_SAFE_NO_PAD.encode([7_u8; 32]);
        let ed = |kid: &str| json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x });
        let with = |name: &str, value: &str| {
            let mut key = ed(value);
            key[name] = value.into();
            key
        };
        let [short_n, e] = [[255_u8; 64].as_slice(), &[1, 0, 1]].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let n = URL_SAFE_NO_PAD.encode([255_u8; 256]);
        let set = json!({ "keys": [
            ed("plain"), with("use", "sig"), with("alg", "EdDSA"),
            { "kty": "RSA", "kid": "rsa", "n": n, "e": e }, { "kty": "RSA", "kid": "short", "n": short_n, "e": e },
            { "kty": "RSA", "kid": "other", "alg": "RS512", "n": n, "e": e },
            { "kty": "oct", "kid": "secret", "k": x }, { "kty": "EC", "kid": "ec", "crv": "P-256", "x": x, "y": x },
            with("use", "enc"), with("alg", "HS256"), with("crv", "X25519"), with("x", "short"), 7, null, {},
        ] });
        let keys = parse(set.to_string().as_bytes()).unwrap();
        let ids: Vec<&str> = keys.iter().map(|(kid, _)| kid.as_deref().unwrap()).collect();
        assert_eq!(ids, ["plain", "sig", "EdDSA", "rsa"]);
        assert_eq!(of_id(&keys, Some("rsa")).len(), 1);
        assert!(of_id(&keys, Some("secret")).is_empty());
        assert!(of_id(&keys, None).is_empty(), "a token without a key id could be of any of them");
        assert_eq!(of_id(&keys[..1], None).len(), 1);

        assert_eq!(parse(br#"{ "keys": [] }"#).unwrap().len(), 0, "a set without keys takes all keys away");
        let many = json!({ "keys": vec![ed("k"); KEYS_MAX + 1] }).to_string();
        for bad in ["", "[]", "{}", "null", r#"{ "keys": 1 }"#, "<html>", many.as_str()] {
            assert_eq!(parse(bad.as_bytes()).err(), Some(JwksError::Malformed), "{bad:.20}");
        }
    }
}
