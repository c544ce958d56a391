//! Credentials: tokens that authenticate callers over HTTP.
//!
//! A credential is a grant that is not used up. It is minted, expires and is revoked by the same events and in the same
//! table as a grant. Its purpose is internal, so that no command can redeem or mint one. The highest bit of its id is
//! set, which no other grant has: credentials sort after all grants and are listed without reading those.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::{NAME_BYTES_MAX, PATTERNS_MAX};
use crate::grant::{Grant, GrantFault, GrantState, Token};
use crate::id::GrantId;
use crate::name::Purpose;
use crate::refusal::Invalid;
use crate::time::Time;

/// The class of a credential. Each class has its own token prefix, so that a leaked token can be recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialClass {
    /// The operator of the installation.
    Operator,
    /// An API key: a program that acts for a tenant, in a role.
    Key,
    /// A worker, which leases jobs within its capabilities.
    Worker,
    /// A link, which lets people without a token read or upload one blob.
    Link,
}

/// The bit that is set in the ids of credentials only.
const CREDENTIAL_BIT: u128 = 1 << 127;

impl CredentialClass {
    /// Every class.
    pub const ALL: [CredentialClass; 4] =
        [CredentialClass::Operator, CredentialClass::Key, CredentialClass::Worker, CredentialClass::Link];

    /// Returns the prefix of its tokens.
    pub fn prefix(self) -> &'static str {
        match self {
            CredentialClass::Operator => "bop_",
            CredentialClass::Key => "bak_",
            CredentialClass::Worker => "bwk_",
            CredentialClass::Link => "blk_",
        }
    }

    /// Returns the internal purpose of its grants.
    pub fn purpose(self) -> Purpose {
        let name = match self {
            CredentialClass::Operator => "bursar:operator",
            CredentialClass::Key => "bursar:key",
            CredentialClass::Worker => "bursar:worker",
            CredentialClass::Link => "bursar:link",
        };
        Purpose::new(name).expect("the literal is a valid name")
    }

    /// Returns the class of an internal purpose.
    pub fn of(purpose: &Purpose) -> Option<CredentialClass> {
        CredentialClass::ALL.into_iter().find(|class| class.purpose() == *purpose)
    }
}

/// The token of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialToken {
    class: CredentialClass,
    token: Token,
}

impl CredentialToken {
    /// Creates the token of a new credential from a fresh id and secret.
    pub fn new(class: CredentialClass, id: u128, secret: [u8; 32]) -> CredentialToken {
        CredentialToken { class, token: Token::new(GrantId(id | CREDENTIAL_BIT), secret) }
    }

    /// Parses a token; its checksum refuses a mistyped one.
    pub fn parse(text: &str) -> Result<CredentialToken, GrantFault> {
        let class = CredentialClass::ALL.into_iter().find(|class| text.starts_with(class.prefix()));
        let class = class.ok_or(GrantFault::Malformed)?;
        let token = Token::parse_with(class.prefix(), text)?;
        if !is_credential(token.id()) {
            return Err(GrantFault::Malformed);
        }
        Ok(CredentialToken { class, token })
    }

    /// Returns the text of the token, which must be shown only once.
    pub fn reveal(&self) -> String {
        self.token.reveal_with(self.class.prefix())
    }

    /// Returns its class.
    pub fn class(&self) -> CredentialClass {
        self.class
    }

    /// Returns the id of its grant.
    pub fn id(&self) -> GrantId {
        self.token.id()
    }

    /// Returns it as the token of a grant.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Checks the token against the row that was found under its id, and returns the row if the token is valid now.
    pub fn admit<'a>(&self, found: Option<&'a Grant>, now: Time) -> Result<&'a Grant, GrantFault> {
        let grant = found.ok_or(GrantFault::Unknown)?;
        if grant.digest != self.token.digest() {
            return Err(GrantFault::Wrong);
        }
        if grant.purpose != self.class.purpose() {
            return Err(GrantFault::Mismatch);
        }
        match grant.state {
            GrantState::Revoked => Err(GrantFault::Revoked),
            GrantState::Redeemed => Err(GrantFault::Redeemed),
            GrantState::Open if grant.expires_at <= now => Err(GrantFault::Expired),
            GrantState::Open => Ok(grant),
        }
    }
}

/// Returns whether the grant with this id is a credential.
pub fn is_credential(id: GrantId) -> bool {
    id.0 & CREDENTIAL_BIT != 0
}

/// Returns the id before all credentials, to list them from the first.
pub fn before_all() -> GrantId {
    GrantId(CREDENTIAL_BIT - 1)
}

/// What a worker may do, as lists of patterns. An empty list allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Queues it may lease from.
    pub queues: Vec<Pattern>,
    /// Kinds of jobs it may work on.
    pub kinds: Vec<Pattern>,
    /// What it may do with blobs.
    pub blobs: BlobCapabilities,
    /// Events it may emit.
    pub events: Vec<Pattern>,
    /// Other operations it may call.
    pub mutations: Vec<Pattern>,
    /// Scopes it may charge for jobs that have no hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charges: Vec<Pattern>,
}

/// What a worker may do with blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BlobCapabilities {
    /// Namespaces it may read.
    pub read: Vec<Pattern>,
    /// Namespaces it may write.
    pub write: Vec<Pattern>,
}

impl Capabilities {
    /// Refuses lists that are too long.
    pub fn check(&self) -> Result<(), Invalid> {
        let lists = [
            ("capabilities.queues", &self.queues),
            ("capabilities.kinds", &self.kinds),
            ("capabilities.blobs.read", &self.blobs.read),
            ("capabilities.blobs.write", &self.blobs.write),
            ("capabilities.events", &self.events),
            ("capabilities.mutations", &self.mutations),
            ("capabilities.charges", &self.charges),
        ];
        match lists.into_iter().find(|(_, list)| list.len() > PATTERNS_MAX) {
            Some((field, list)) => {
                Err(Invalid::new(field, format!("has {} entries; at most {PATTERNS_MAX} are allowed", list.len())))
            }
            None => Ok(()),
        }
    }
}

/// A name, or a prefix of names before a `*`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

impl Pattern {
    /// Parses a pattern, which may have a `*` only at its end.
    pub fn new(text: impl Into<String>) -> Result<Pattern, Invalid> {
        let text = text.into();
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            return Err(Invalid::new("pattern", format!("must have 1 to {NAME_BYTES_MAX} bytes")));
        }
        if text.strip_suffix('*').unwrap_or(&text).contains('*') {
            return Err(Invalid::new("pattern", "may have a `*` at its end only"));
        }
        Ok(Pattern(text))
    }

    /// Returns whether it matches a name.
    pub fn admits(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => self.0 == name,
        }
    }

    /// Returns whether it matches every name that another pattern matches.
    pub fn covers(&self, other: &str) -> bool {
        match other.strip_suffix('*') {
            Some(beginning) => self.0.strip_suffix('*').is_some_and(|own| beginning.starts_with(own)),
            None => self.admits(other),
        }
    }
}

/// Returns whether one of the patterns matches every name that `requested`, a name or a pattern, matches.
pub fn covered(patterns: &[Pattern], requested: &str) -> bool {
    patterns.iter().any(|pattern| pattern.covers(requested))
}

impl TryFrom<String> for Pattern {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Pattern, Invalid> {
        Pattern::new(text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::BatchId;
    use crate::name::{Subject, Tenant};
    use crate::payload::Payload;

    fn row(token: &CredentialToken, state: GrantState) -> Grant {
        Grant {
            id: token.id(),
            tenant: Tenant::built_in(),
            digest: token.token().digest(),
            purpose: token.class().purpose(),
            subject: Subject::new("wkr").unwrap(),
            payload: Payload::default(),
            expires_at: Time::from_micros(100),
            state,
            version: 1,
            last: Some(BatchId(1)),
        }
    }

    #[test]
    fn tokens_parse_back_in_their_class_only() {
        for class in CredentialClass::ALL {
            let token = CredentialToken::new(class, 42, [7; 32]);
            let text = token.reveal();
            assert_eq!(CredentialToken::parse(&text), Ok(token));
            assert!(text.starts_with(class.prefix()));
            assert_eq!(Token::parse(&text), Err(GrantFault::Malformed), "not a grant token");
            assert_eq!(CredentialToken::parse(&text[..text.len() - 1]), Err(GrantFault::Malformed));
            assert_eq!(CredentialClass::of(&class.purpose()), Some(class));
        }
        let grant = Token::new(GrantId(42), [7; 32]);
        assert_eq!(CredentialToken::parse(&grant.reveal()), Err(GrantFault::Malformed));
        assert_eq!(
            CredentialToken::parse(&grant.reveal_with("bwk_")),
            Err(GrantFault::Malformed),
            "not the id of a credential"
        );
    }

    #[test]
    fn only_a_valid_token_of_the_right_class_is_admitted() {
        let token = CredentialToken::new(CredentialClass::Worker, 42, [7; 32]);
        let (now, open) = (Time::from_micros(99), row(&token, GrantState::Open));
        assert_eq!(token.admit(Some(&open), now), Ok(&open));
        assert_eq!(token.admit(None, now), Err(GrantFault::Unknown));
        assert_eq!(token.admit(Some(&open), Time::from_micros(100)), Err(GrantFault::Expired));
        assert_eq!(token.admit(Some(&row(&token, GrantState::Revoked)), now), Err(GrantFault::Revoked));
        let forged = CredentialToken::new(CredentialClass::Worker, 42, [8; 32]);
        assert_eq!(forged.admit(Some(&open), now), Err(GrantFault::Wrong));
        let raised = CredentialToken::new(CredentialClass::Operator, 42, [7; 32]);
        assert_eq!(raised.admit(Some(&open), now), Err(GrantFault::Mismatch), "another prefix is another class");
    }

    #[test]
    fn patterns_cover_names_and_prefixes() {
        let pattern = |text: &str| Pattern::new(text).unwrap();
        for (own, requested, covers) in [
            ("media", "media", true),
            ("media", "media-2", false),
            ("media-*", "media-2", true),
            ("media-*", "media", false),
            ("media-*", "media-x*", true),
            ("media-*", "media*", false),
            ("media", "media*", false),
            ("*", "anything*", true),
        ] {
            assert_eq!(pattern(own).covers(requested), covers, "{own} {requested}");
        }
        assert!(!covered(&[], "media"), "an empty list allows nothing");
        assert!(Pattern::new("a*b").is_err() && Pattern::new("").is_err());
    }
}
