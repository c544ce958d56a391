//! Callers that sign their requests: which signatures are accepted, and that each is accepted once.
//!
//! A signature is checked in this order: the head, the key, the body, this process's memory of nonces, and the idempotency key of the charge.
//! The key is made from the nonce, so a repetition is found in the transaction that would charge it, on any node. The fingerprint of the
//! charge is random: a repetition conflicts with the first charge instead of getting its answer, while the engine can still submit one
//! charge twice if the answer to a commit is lost.

use std::pin::pin;
use std::time::Duration;

use bursar_core::name::IdempotencyKey;
use bursar_core::request::Fingerprint;
use bursar_core::time::{Span, Time};
use bursar_signatures::{
    BodyDigest, Checks, DigestBuilder, Head, PublicKey, SignatureError, VerifiedSignature, is_signed, verify,
};
use bytes::Bytes;
use http::request::Parts;
use http_body::Body;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::meter::Meter;
use crate::meter::agent_keys::{Registered, check_agents};
use crate::meter::body::{ReadBody, as_bytes};
use crate::meter::caller::Caller;
use crate::meter::counters::count;
use crate::meter::problem::Rejection;
use crate::meter::settings::MeterError;

/// Whether callers sign their requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signed {
    /// Signatures are ignored.
    #[default]
    Off,
    /// A signature is checked if a request has one. Agents with registered keys must sign; other callers need not.
    Optional,
    /// Every request that is charged must be signed.
    Required,
}

/// What the signatures of callers are checked against.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SignatureSettings {
    /// The hosts, with their ports if they are not the default ones, under which callers know this service. A signature for another host is
    /// refused, so that it cannot be used here. `*` stands for any host.
    pub authorities: Vec<String>,
    /// The most milliseconds between the creation of a signature and its arrival, in both directions, from 1,000 to 3,600,000.
    pub window_ms: u64,
    /// The most bytes of the body of a signed request, which is read before the request is charged; at most 1 GiB.
    pub body_bytes_max: u64,
    /// The most milliseconds until that body has arrived, from 1 to 600,000.
    pub body_ms: u64,
    /// Whether a public key is a caller without being registered.
    pub self_certified: bool,
    /// A TOML file with further keys in a table `[agents]`. Changes of the file take effect within a second.
    pub keys_path: Option<std::path::PathBuf>,
    /// The keys of agents by name.
    pub agents: Registered,
}

impl Default for SignatureSettings {
    fn default() -> SignatureSettings {
        SignatureSettings {
            authorities: Vec::new(),
            window_ms: 60_000,
            body_bytes_max: 1 << 20,
            body_ms: 30_000,
            self_certified: true,
            keys_path: None,
            agents: Registered::new(),
        }
    }
}

/// The most names of a service.
const AUTHORITIES_MAX: usize = 100;

impl SignatureSettings {
    /// Fails on the first invalid setting.
    pub(crate) fn check(&self) -> Result<(), MeterError> {
        let wrong = |key, problem: String| Err(MeterError::Setting { key, problem });
        if !(1..=AUTHORITIES_MAX).contains(&self.authorities.len()) {
            let problem = format!(
                "must name the hosts under which callers know this service, at most {AUTHORITIES_MAX}; [\"*\"] stands for any"
            );
            return wrong("signatures.authorities", problem);
        }
        let is_host = |name: &str| name == "*" || name.parse::<http::uri::Authority>().is_ok_and(|host| host == name);
        if let Some(name) = self.authorities.iter().find(|name| !is_host(name) || name.contains('@')) {
            return wrong("signatures.authorities", format!("{name:?} is not a host, or a host with a port"));
        }
        if !(1_000..=3_600_000).contains(&self.window_ms) {
            return wrong("signatures.window_ms", "must be from 1000 to 3600000".into());
        }
        if self.body_bytes_max > 1 << 30 {
            return wrong("signatures.body_bytes_max", "must be at most 1073741824".into());
        }
        if !(1..=600_000).contains(&self.body_ms) {
            return wrong("signatures.body_ms", "must be from 1 to 600000".into());
        }
        check_agents(&self.agents).map_err(|problem| MeterError::Setting { key: "signatures.agents", problem })
    }

    /// Fails if idempotency keys are kept for a shorter time than a signature is accepted.
    pub(crate) fn check_kept(&self, key_kept: Span) -> Result<(), MeterError> {
        if key_kept.micros() < self.window().micros() * 2 {
            let problem = "must be at most half of the time that idempotency keys are kept (rules.key_kept_ms)".into();
            return Err(MeterError::Setting { key: "signatures.window_ms", problem });
        }
        Ok(())
    }

    pub(crate) fn window(&self) -> Span {
        Span::from_millis(self.window_ms)
    }
}

/// A request whose signature fits its head and a key of its caller. From [`Meter::signature_of`].
#[derive(Clone, Debug)]
pub struct SignedRequest {
    caller: Caller,
    signature: VerifiedSignature,
}

impl SignedRequest {
    /// Returns the caller that has signed.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the key that has signed.
    pub fn key(&self) -> PublicKey {
        self.signature.key
    }

    /// Fails if the body is not the one that was signed.
    pub fn check_body(&self, body: &[u8]) -> Result<(), SignatureError> {
        let mut check = self.body_check();
        check.add(body);
        check.finish()
    }

    /// Begins to check a body that arrives in parts.
    pub fn body_check(&self) -> BodyCheck {
        BodyCheck { signed: self.signature.digest, read: DigestBuilder::default(), is_empty: true }
    }

    /// Returns the digest that names the nonce of this caller and key.
    fn nonce(&self) -> [u8; 32] {
        let VerifiedSignature { key, nonce, .. } = &self.signature;
        let mut digest = Sha256::new();
        digest.update(key.0);
        digest.update(nonce);
        digest.update(self.caller.scope().as_str());
        digest.finalize().into()
    }

    /// Returns the idempotency key of the charge, and a fingerprint that no other charge has.
    pub(crate) fn once(&self) -> (IdempotencyKey, Fingerprint) {
        let digits: String = self.nonce().iter().map(|byte| format!("{byte:02x}")).collect();
        let key = IdempotencyKey::new(format!("signature:{digits}")).expect("letters and digits form a valid key");
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system supplies random bytes");
        (key, Fingerprint(u128::from_be_bytes(random)))
    }
}

/// Compares a body with the one that was signed. From [`SignedRequest::body_check`].
pub struct BodyCheck {
    signed: Option<BodyDigest>,
    read: DigestBuilder,
    is_empty: bool,
}

impl BodyCheck {
    /// Adds the next part of the body.
    pub fn add(&mut self, part: &[u8]) {
        self.is_empty &= part.is_empty();
        self.read.add(part);
    }

    /// Fails if the body is not the one that was signed.
    pub fn finish(self) -> Result<(), SignatureError> {
        match self.signed {
            Some(signed) if signed == self.read.finish() => Ok(()),
            Some(_) => Err(SignatureError::DigestMismatch),
            None if self.is_empty => Ok(()),
            None => Err(SignatureError::MissingComponent("content-digest")),
        }
    }
}

impl Meter {
    /// Verifies the signature of a request's head, and that its key is one of the agent that `X-Agent-Id` names. Returns `None` if the
    /// request is not signed or signatures are off. The body is checked by [`SignedRequest::check_body`], and that the signature is used
    /// once by [`Meter::charge_signed_request`]. [`Meter::layer`] does all of this.
    pub async fn signature_of(&self, head: &Parts) -> Result<Option<SignedRequest>, SignatureError> {
        let Some(signature) = self.verified_head(head)? else { return Ok(None) };
        let caller = match signature.agent.parse::<PublicKey>() {
            Ok(key) if key == signature.key && self.inner.settings.signatures.self_certified => {
                Caller::new(&key.to_string()).map_err(|_| SignatureError::UnknownKey)?
            }
            Ok(_) => return Err(SignatureError::UnknownKey),
            Err(_) => {
                self.check_key(&signature.agent, signature.key).await?;
                Caller::new(&signature.agent).map_err(|_| SignatureError::UnknownKey)?
            }
        };
        Ok(Some(SignedRequest { caller, signature }))
    }

    /// Verifies the signature of a request whose caller is known from elsewhere, such as a token. `X-Agent-Id` must be the name of the
    /// caller, and the key must be registered as `registered`. Fails if the request is not signed and must be.
    pub async fn signature_by(
        &self,
        head: &Parts,
        caller: &Caller,
        registered: &str,
    ) -> Result<Option<SignedRequest>, SignatureError> {
        let signature = self.signature_of_caller(head, caller, registered).await;
        let signature = signature.inspect_err(|_| count(&self.inner.counters.rejected))?;
        Ok(signature.map(|signature| SignedRequest { caller: caller.clone(), signature }))
    }

    async fn signature_of_caller(
        &self,
        head: &Parts,
        caller: &Caller,
        registered: &str,
    ) -> Result<Option<VerifiedSignature>, SignatureError> {
        let Some(signature) = self.verified_head(head)? else {
            return self.may_be_unsigned(registered).await.map(|()| None);
        };
        if signature.agent != caller.name() {
            return Err(SignatureError::OtherAgent);
        }
        self.check_key(registered, signature.key).await?;
        Ok(Some(signature))
    }

    /// Fails if requests of a caller must be signed.
    pub(crate) async fn may_be_unsigned(&self, name: &str) -> Result<(), SignatureError> {
        let must_sign = match self.inner.settings.signed {
            Signed::Off => false,
            Signed::Optional => self.registered().await.contains_key(name),
            Signed::Required => true,
        };
        if must_sign { Err(SignatureError::Unsigned) } else { Ok(()) }
    }

    /// Verifies the signature of a head with the key that it names.
    fn verified_head(&self, head: &Parts) -> Result<Option<VerifiedSignature>, SignatureError> {
        let settings = &self.inner.settings;
        if settings.signed == Signed::Off || !is_signed(&head.headers) {
            return Ok(None);
        }
        let now = self.now().micros().div_euclid(1_000_000);
        let window = settings.signatures.window().micros() / 1_000_000;
        let checks = Checks { now, window, authorities: &settings.signatures.authorities };
        verify(Head::of(head), &checks).map(Some)
    }

    /// Fails unless a key is registered for a name and still valid.
    async fn check_key(&self, name: &str, key: PublicKey) -> Result<(), SignatureError> {
        let registered = self.registered().await;
        let keys = registered.get(name).ok_or(SignatureError::UnknownKey)?;
        let known = keys.iter().find(|known| known.key == key).ok_or(SignatureError::UnknownKey)?;
        match known.not_after {
            Some(last) if self.now() > last => Err(SignatureError::RetiredKey),
            _ => Ok(()),
        }
    }

    async fn registered(&self) -> std::sync::Arc<Registered> {
        self.inner.agents.current(self.now(), &self.bursar.inner.runtime).await
    }

    /// Remembers the nonce of a request. Returns whether it is new to this process.
    pub(crate) fn is_first(&self, signed: &SignedRequest) -> bool {
        self.inner.seen.add(signed.nonce(), self.now())
    }

    fn now(&self) -> Time {
        self.inner.clock.now()
    }
}

/// Reads the body of a signed request, and checks that it is the one that was signed. Trailers are not signed, and left out.
pub(crate) async fn read_signed_body<B: Body>(
    body: B,
    signed: &SignedRequest,
    settings: &SignatureSettings,
) -> Result<ReadBody, Rejection> {
    let timeout = Duration::from_millis(settings.body_ms);
    let read = tokio::time::timeout(timeout, collect(body, signed, settings.body_bytes_max)).await;
    read.unwrap_or(Err(Rejection::BodySlow(settings.body_ms)))
}

async fn collect<B: Body>(body: B, signed: &SignedRequest, bytes_max: u64) -> Result<ReadBody, Rejection> {
    if body.size_hint().lower() > bytes_max {
        return Err(Rejection::BodyTooLarge(bytes_max));
    }
    let mut body = pin!(body);
    let (mut read, mut check) = (ReadBody::default(), signed.body_check());
    loop {
        // Only bytes are kept between two polls, because data and errors of the body need not be `Send`.
        let next = std::future::poll_fn(|cx| {
            body.as_mut().poll_frame(cx).map(|frame| {
                frame.map(|frame| match frame {
                    Ok(frame) => Ok(as_bytes(frame).into_data().unwrap_or_default()),
                    Err(_) => Err(Rejection::BodyIncomplete),
                })
            })
        });
        let Some(part): Option<Bytes> = next.await.transpose()? else { break };
        if read.bytes() + part.len() as u64 > bytes_max {
            return Err(Rejection::BodyTooLarge(bytes_max));
        }
        if !part.is_empty() {
            check.add(&part);
            read.add(part);
        }
    }
    check.finish()?;
    Ok(read)
}
