//! Signing requests.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::Request;
use http::header::{HOST, HeaderMap, HeaderValue};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::base::{Head, base, single};
use crate::digest::BodyDigest;
use crate::error::{BadKey, SigningError};
use crate::key::{PublicKey, parse_hex};
use crate::structured::{Item, bytes_text, list_text};
use crate::verify::{NONCE_BYTES_MAX, NONCE_BYTES_MIN};
use crate::{AGENT_ID, CONTENT_DIGEST, SIGNATURE, SIGNATURE_INPUT};

/// The name of the signature in the headers. It has no meaning.
const LABEL: &str = "agent";

/// Signs the requests of an agent. Cheap to clone.
#[derive(Clone)]
pub struct Signer {
    agent: String,
    key: Arc<Ed25519KeyPair>,
    public: PublicKey,
}

/// Returns whether a text can be the name of an agent: 1 to 249 printable ASCII characters, without a space at either end.
pub fn is_agent_name(text: &str) -> bool {
    (1..=249).contains(&text.len()) && text.trim() == text && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Creates a new private key: 32 random bytes.
pub fn new_seed() -> Result<[u8; 32], SigningError> {
    random()
}

impl Signer {
    /// Creates a signer with a private key, the 32 bytes that RFC 8032 calls the secret key. The name of the agent is its public key.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Signer, BadKey> {
        let key = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| BadKey)?;
        let public = PublicKey(key.public_key().as_ref().try_into().map_err(|_| BadKey)?);
        Ok(Signer { agent: public.to_string(), key: Arc::new(key), public })
    }

    /// Creates a signer with a private key of 64 hexadecimal digits.
    pub fn from_hex(seed: &str) -> Result<Signer, BadKey> {
        Signer::from_seed(&parse_hex(seed.trim())?)
    }

    /// Sets the name of the agent, under which the verifier has registered the public key.
    pub fn named(self, agent: impl Into<String>) -> Result<Signer, SigningError> {
        let agent = agent.into();
        if is_agent_name(&agent) { Ok(Signer { agent, ..self }) } else { Err(SigningError::Name) }
    }

    /// Returns the name of the agent.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the public key.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Signs a request: sets `X-Agent-Id`, `Signature-Input`, `Signature` and, if the body is not empty, `Content-Digest`. The URI must be
    /// absolute, or the request have the header `Host`. Sign each attempt of a request anew, because each signature is accepted once.
    pub fn sign<B: AsRef<[u8]>>(&self, request: &mut Request<B>, at: SystemTime) -> Result<(), SigningError> {
        let body = Some(request.body().as_ref()).filter(|body| !body.is_empty()).map(BodyDigest::of);
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let nonce: String = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        self.sign_head(&method, &uri, request.headers_mut(), body, at, &nonce)
    }

    /// Signs a head whose body has a known digest, with a nonce: 16 to 128 visible ASCII characters that this key never used before.
    pub fn sign_head(
        &self,
        method: &http::Method,
        uri: &http::Uri,
        headers: &mut HeaderMap,
        body: Option<BodyDigest>,
        at: SystemTime,
        nonce: &str,
    ) -> Result<(), SigningError> {
        if uri.authority().is_none() && single(headers, &HOST).is_none() {
            return Err(SigningError::NoHost);
        }
        let is_valid = |nonce: &str| nonce.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        if !(NONCE_BYTES_MIN..=NONCE_BYTES_MAX).contains(&nonce.len()) || !is_valid(nonce) {
            return Err(SigningError::Nonce);
        }
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| SigningError::Header);
        headers.insert(AGENT_ID, value(&self.agent)?);
        let mut components: Vec<String> =
            ["@method", "@authority", "@path", "@query", "x-agent-id"].map(str::to_owned).to_vec();
        match body {
            Some(digest) => {
                headers.insert(CONTENT_DIGEST, value(&digest.header())?);
                components.push(CONTENT_DIGEST.as_str().to_owned());
            }
            None => drop(headers.remove(CONTENT_DIGEST)),
        }
        let created = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
        let parameters = vec![
            ("created".to_owned(), Item::Integer(created)),
            ("nonce".to_owned(), Item::String(nonce.to_owned())),
            ("keyid".to_owned(), Item::String(self.public.to_string())),
            ("alg".to_owned(), Item::String("ed25519".to_owned())),
        ];
        let text = base(Head { method, uri, headers }, &components, &parameters).map_err(|_| SigningError::Header)?;
        let signature = bytes_text(self.key.sign(text.as_bytes()).as_ref());
        let input = list_text(components.iter().map(String::as_str), &parameters);
        headers.insert(SIGNATURE_INPUT, value(&format!("{LABEL}={input}"))?);
        headers.insert(SIGNATURE, value(&format!("{LABEL}={signature}"))?);
        Ok(())
    }
}

/// Leaves out the private key.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("agent", &self.agent).field("public", &self.public.to_string()).finish()
    }
}

fn random<const N: usize>() -> Result<[u8; N], SigningError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| SigningError::Random)?;
    Ok(bytes)
}
