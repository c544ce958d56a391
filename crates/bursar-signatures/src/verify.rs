//! Verifying signatures.

use ring::signature::{ED25519, UnparsedPublicKey};

use crate::base::{Head, base, single};
use crate::digest::BodyDigest;
use crate::error::SignatureError;
use crate::key::PublicKey;
use crate::structured::{Item, Member, Parameters, parse_dictionary};
use crate::{AGENT_ID, CONTENT_DIGEST, SIGNATURE, SIGNATURE_INPUT};

/// The least bytes of a nonce.
pub const NONCE_BYTES_MIN: usize = 16;
/// The most bytes of a nonce.
pub const NONCE_BYTES_MAX: usize = 128;

/// The value of `Accept-Signature` that asks for a signature that [`verify`] accepts.
pub const ACCEPT_SIGNATURE_VALUE: &str =
    r#"agent=("@method" "@authority" "@path" "@query" "x-agent-id" "content-digest");created;alg="ed25519""#;

/// The components that every signature covers.
const REQUIRED: [&str; 5] = ["@method", "@authority", "@path", "@query", "x-agent-id"];

/// What a signature is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Checks<'a> {
    /// The present time, in seconds since 1970.
    pub now: i64,
    /// The most seconds between the creation of a signature and now, in both directions.
    pub window: i64,
    /// The names of the service, such as `api.example` or `api.example:8443`; `*` stands for any.
    pub authorities: &'a [String],
}

/// A signature that fits the head of its request. Its body, its key and its nonce remain to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSignature {
    /// The value of `X-Agent-Id`.
    pub agent: String,
    /// The key that has signed.
    pub key: PublicKey,
    /// The nonce: 16 to 128 bytes.
    pub nonce: String,
    /// The digest of the body; `None` if the signature covers none, so that the body must be empty.
    pub digest: Option<BodyDigest>,
}

/// Returns whether a request has, or claims to have, a signature.
pub fn is_signed(headers: &http::HeaderMap) -> bool {
    headers.contains_key(SIGNATURE) || headers.contains_key(SIGNATURE_INPUT)
}

/// Verifies the signature of a request's head: the one that covers `X-Agent-Id`. Signatures of others, such as proxies, are ignored.
pub fn verify(head: Head<'_>, checks: &Checks<'_>) -> Result<VerifiedSignature, SignatureError> {
    if !is_signed(head.headers) {
        return Err(SignatureError::Unsigned);
    }
    let (label, components, parameters) = signature_of_agent(head)?;
    for required in REQUIRED {
        if !components.iter().any(|name| name == required) {
            return Err(SignatureError::MissingComponent(required));
        }
    }
    let agent = single(head.headers, &AGENT_ID)
        .filter(|agent| !agent.is_empty())
        .ok_or(malformed("x-agent-id", "must be given once, in ASCII"))?;
    let authority = head.authority().ok_or(malformed("host", "must be given once"))?;
    if !checks.authorities.iter().any(|name| name == "*" || name.eq_ignore_ascii_case(&authority)) {
        return Err(SignatureError::WrongAuthority(authority));
    }
    let (key, nonce) = checked_parameters(&parameters, checks)?;
    let signature = signature_bytes(head, &label)?;
    let text = base(head, &components, &parameters).map_err(SignatureError::UnknownComponent)?;
    UnparsedPublicKey::new(&ED25519, key.0)
        .verify(text.as_bytes(), &signature)
        .map_err(|_| SignatureError::WrongSignature)?;
    let digest = match components.iter().any(|name| name == CONTENT_DIGEST.as_str()) {
        true => Some(BodyDigest::parse(&joined(head, "content-digest")?)?),
        false => None,
    };
    Ok(VerifiedSignature { agent: agent.to_owned(), key, nonce, digest })
}

fn malformed(header: &'static str, problem: &'static str) -> SignatureError {
    SignatureError::Malformed { header, problem }
}

/// Returns the label, the components and the parameters of the one signature that covers `X-Agent-Id`.
fn signature_of_agent(head: Head<'_>) -> Result<(String, Vec<String>, Parameters), SignatureError> {
    let header = SIGNATURE_INPUT_NAME;
    let members = parse_dictionary(&joined(head, header)?).map_err(|problem| malformed(header, problem))?;
    let covers = |member: &Member| {
        member.list.iter().any(|(item, _)| matches!(item, Item::String(name) if name == AGENT_ID.as_str()))
    };
    let mut found = members.into_iter().filter(|(_, member)| covers(member));
    let (label, member) = found.next().ok_or(SignatureError::MissingComponent("x-agent-id"))?;
    if found.next().is_some() {
        return Err(malformed(header, "has two signatures that cover x-agent-id"));
    }
    let components = components(&member)?;
    Ok((label, components, member.parameters))
}

const SIGNATURE_INPUT_NAME: &str = "signature-input";

/// Returns the names of the components that a member of `Signature-Input` covers.
pub(crate) fn components(member: &Member) -> Result<Vec<String>, SignatureError> {
    let mut names: Vec<String> = Vec::with_capacity(member.list.len());
    for (item, parameters) in &member.list {
        let Item::String(name) = item else {
            return Err(malformed(SIGNATURE_INPUT_NAME, "has a component that is not a string"));
        };
        if !parameters.is_empty() {
            return Err(SignatureError::UnknownComponent(format!("{name};{}", parameters[0].0)));
        }
        if names.contains(name) {
            return Err(malformed(SIGNATURE_INPUT_NAME, "has a component twice"));
        }
        names.push(name.clone());
    }
    Ok(names)
}

/// Checks the parameters of a signature. Returns its key and its nonce.
fn checked_parameters(parameters: &Parameters, checks: &Checks<'_>) -> Result<(PublicKey, String), SignatureError> {
    let header = SIGNATURE_INPUT_NAME;
    let integer = |name: &'static str| match parameters.iter().find(|(known, _)| known == name) {
        Some((_, Item::Integer(number))) => Ok(Some(*number)),
        None => Ok(None),
        Some(_) => Err(malformed(header, "has a time that is not an integer")),
    };
    let string = |name: &'static str| match parameters.iter().find(|(known, _)| known == name) {
        Some((_, Item::String(text))) => Ok(Some(text.as_str())),
        None => Ok(None),
        Some(_) => Err(malformed(header, "has a parameter that is not a string")),
    };
    if string("alg")?.is_some_and(|algorithm| algorithm != "ed25519") {
        return Err(malformed(header, "has an algorithm other than ed25519"));
    }
    let created = integer("created")?.ok_or(SignatureError::MissingParameter("created"))?;
    let age_s = checks.now.saturating_sub(created);
    if age_s.saturating_abs() > checks.window {
        return Err(SignatureError::Stale { age_s, window_s: checks.window });
    }
    if integer("expires")?.is_some_and(|expires| expires <= checks.now) {
        return Err(SignatureError::Expired);
    }
    let nonce = string("nonce")?.ok_or(SignatureError::MissingParameter("nonce"))?;
    if !(NONCE_BYTES_MIN..=NONCE_BYTES_MAX).contains(&nonce.len()) {
        return Err(malformed(header, "has a nonce that is not 16 to 128 bytes long"));
    }
    let key = string("keyid")?.ok_or(SignatureError::MissingParameter("keyid"))?;
    let key =
        key.parse().map_err(|_| malformed(header, "has a keyid that is not 32 bytes as 64 hexadecimal digits"))?;
    Ok((key, nonce.to_owned()))
}

/// Returns the bytes of the signature with a label.
fn signature_bytes(head: Head<'_>, label: &str) -> Result<Vec<u8>, SignatureError> {
    let header = "signature";
    let members = parse_dictionary(&joined(head, header)?).map_err(|problem| malformed(header, problem))?;
    let member = members.into_iter().find(|(name, _)| name == label).map(|(_, member)| member);
    match member.and_then(|member| member.item) {
        Some(Item::Bytes(bytes)) => Ok(bytes),
        _ => Err(malformed(header, "lacks the signature that signature-input names")),
    }
}

/// Returns all values of a header as one, as a dictionary may be split over several lines.
fn joined(head: Head<'_>, name: &'static str) -> Result<String, SignatureError> {
    let mut values = Vec::new();
    for value in head.headers.get_all(name) {
        values.push(value.to_str().map_err(|_| malformed(name, "is not ASCII"))?);
    }
    if values.is_empty() { Err(malformed(name, "is missing")) } else { Ok(values.join(", ")) }
}
