//! Why a signature is refused, or cannot be made.

/// Why the signature of a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The request has no signature, and must have one.
    #[error("the request is not signed; sign it as the header Accept-Signature says")]
    Unsigned,
    /// A header cannot be parsed.
    #[error("{header} {problem}")]
    Malformed {
        /// The header.
        header: &'static str,
        /// What is wrong with it, as a phrase that follows the name of the header.
        problem: &'static str,
    },
    /// The signature does not cover a component that it must cover.
    #[error("the signature does not cover {0:?}")]
    MissingComponent(&'static str),
    /// The signature covers a component that is not supported, or that the request does not have.
    #[error("the signature covers {0:?}, which the request does not have or this service does not support")]
    UnknownComponent(String),
    /// The signature lacks a parameter.
    #[error("the signature lacks the parameter {0:?}")]
    MissingParameter(&'static str),
    /// The signature is made for another host.
    #[error("the signature is for the host {0:?}, which is not a name of this service")]
    WrongAuthority(String),
    /// The signature was made too long ago, or too far in the future.
    #[error(
        "the signature was created {age_s} s before the time of this service, outside of the window of {window_s} s; sign again with a correct clock"
    )]
    Stale {
        /// The age of the signature in seconds; negative if it was created in the future.
        age_s: i64,
        /// The most seconds between the creation of a signature and now.
        window_s: i64,
    },
    /// The signature has expired by its own parameter.
    #[error("the signature has expired; sign again")]
    Expired,
    /// The key is not one of the agent's.
    #[error("the key is not registered for the agent")]
    UnknownKey,
    /// The key is no longer valid.
    #[error("the key of the agent is no longer valid; sign with a newer one")]
    RetiredKey,
    /// The signature is not one of the request by the key.
    #[error("the signature does not fit the request and the key")]
    WrongSignature,
    /// The signature is by another agent than the one that the token of the request names.
    #[error("the request is signed by another agent than the one that its token names")]
    OtherAgent,
    /// The body is not the one that the digest describes.
    #[error("the body does not fit the digest in Content-Digest")]
    DigestMismatch,
    /// The nonce was used before.
    #[error("the nonce was used before: the request is a repetition; sign each request anew")]
    Replayed,
}

impl SignatureError {
    /// Returns a stable word for the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            SignatureError::Unsigned => "unsigned",
            SignatureError::Malformed { .. } => "malformed",
            SignatureError::MissingComponent(_) => "missing-component",
            SignatureError::UnknownComponent(_) => "unknown-component",
            SignatureError::MissingParameter(_) => "missing-parameter",
            SignatureError::WrongAuthority(_) => "wrong-authority",
            SignatureError::Stale { .. } => "stale",
            SignatureError::Expired => "expired",
            SignatureError::UnknownKey => "unknown-key",
            SignatureError::RetiredKey => "retired-key",
            SignatureError::WrongSignature => "wrong-signature",
            SignatureError::OtherAgent => "other-agent",
            SignatureError::DigestMismatch => "digest-mismatch",
            SignatureError::Replayed => "replayed",
        }
    }
}

/// The text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 32 bytes as 64 hexadecimal digits")]
pub struct BadKey;

/// Why a request cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SigningError {
    /// The name of the agent cannot be a header.
    #[error("the name of the agent must be 1 to 249 printable ASCII characters without a space at either end")]
    Name,
    /// The request names no host.
    #[error("the request has no host: its URI must be absolute, or it must have the header Host")]
    NoHost,
    /// The nonce cannot be part of a signature.
    #[error("the nonce must be 16 to 128 visible ASCII characters")]
    Nonce,
    /// A header that is signed is given twice, or is not ASCII.
    #[error("a header that is signed is given twice, or is not ASCII")]
    Header,
    /// The system has no random bytes.
    #[error("the operating system supplies no random bytes")]
    Random,
}
