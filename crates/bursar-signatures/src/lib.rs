//! Signed requests of agents: HTTP message signatures (RFC 9421) with Ed25519, and digests of bodies (RFC 9530).
//!
//! A signature covers the method, the host, the path, the query, the name of the agent and the digest of the body. It has the time at which
//! it was made and a nonce, so that a verifier can refuse old and repeated requests.
//!
//! ```
//! use std::time::{Duration, SystemTime};
//!
//! use bursar_signatures::{Checks, Head, Signer, verify};
//!
//! let signer = Signer::from_seed(&[7; 32])?;
//! let mut request = http::Request::post("https://api.example/claims?lens=a").body(r#"{"claim":1}"#)?;
//! let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
//! signer.sign(&mut request, now)?;
//!
//! let (head, body) = request.into_parts();
//! let checks = Checks { now: 1_800_000_000, window: 60, authorities: &["api.example".to_owned()] };
//! let signature = verify(Head::of(&head), &checks)?;
//! assert_eq!(signature.agent, signer.agent());
//! assert!(signature.digest.is_some_and(|digest| digest.is_of(body.as_bytes())));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate knows no clock and remembers no nonces. `bursar::meter` does both.

mod base;
mod digest;
mod error;
mod key;
mod sign;
mod structured;
mod verify;

use http::header::HeaderName;

pub use crate::base::{Head, signature_base};
pub use crate::digest::{BodyDigest, DigestBuilder};
pub use crate::error::{BadKey, SignatureError, SigningError};
pub use crate::key::PublicKey;
pub use crate::sign::{Signer, is_agent_name, new_seed};
pub use crate::verify::{
    ACCEPT_SIGNATURE_VALUE, Checks, NONCE_BYTES_MAX, NONCE_BYTES_MIN, VerifiedSignature, is_signed, verify,
};

/// The header with the name or the public key of an agent.
pub const AGENT_ID: HeaderName = HeaderName::from_static("x-agent-id");
/// The header with what signatures cover.
pub const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
/// The header with signatures.
pub const SIGNATURE: HeaderName = HeaderName::from_static("signature");
/// The header with digests of the body.
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// The header of a response that says which signature the next request should have.
pub const ACCEPT_SIGNATURE: HeaderName = HeaderName::from_static("accept-signature");
