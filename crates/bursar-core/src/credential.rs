//! Credentials: what a caller shows to say who it is.
//!
//! A credential is a grant that is not used up. It is minted, expires and is revoked as a grant is, by the same events and in
//! the same table; its purpose is one of Bursar's own, so that no command redeems it. Its id has the highest bit set, which no
//! other grant's has: credentials stand behind all grants, and are listed without reading them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::{NAME_BYTES_MAX, PATTERNS_MAX};
use crate::grant::{Grant, GrantFault, GrantState, Token};
use crate::id::GrantId;
use crate::name::Purpose;
use crate::refusal::Invalid;
use crate::time::Time;

/// What a credential is for. Each class has a prefix of its own, so that a leaked one is known for what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialClass {
    /// Whoever runs the installation.
    Operator,
    /// A program that acts for a tenant, in a role.
    Key,
    /// Who leases jobs, and may do what its capabilities say.
    Worker,
}

/// The bit that ids of credentials have and others do not.
const BEHIND: u128 = 1 << 127;

impl CredentialClass {
    /// All of them.
    pub const ALL: [CredentialClass; 3] = [CredentialClass::Operator, CredentialClass::Key, CredentialClass::Worker];

    /// What its tokens begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            CredentialClass::Operator => "bop_",
            CredentialClass::Key => "bak_",
            CredentialClass::Worker => "bwk_",
        }
    }

    /// The purpose under which it is kept.
    pub fn purpose(self) -> Purpose {
        let name = match self {
            CredentialClass::Operator => "bursar:operator",
            CredentialClass::Key => "bursar:key",
            CredentialClass::Worker => "bursar:worker",
        };
        Purpose::new(name).expect("it is a name")
    }

    /// The class of a purpose, if it is one of Bursar's own.
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
    /// A new one, from an id and a secret that nobody has.
    pub fn new(class: CredentialClass, id: u128, secret: [u8; 32]) -> CredentialToken {
        CredentialToken { class, token: Token::new(GrantId(id | BEHIND), secret) }
    }

    /// Reads a token; one that is malformed or mistyped is refused by its checksum, without a query.
    pub fn parse(text: &str) -> Result<CredentialToken, GrantFault> {
        let class = CredentialClass::ALL.into_iter().find(|class| text.starts_with(class.prefix()));
        let class = class.ok_or(GrantFault::Malformed)?;
        let token = Token::parse_with(class.prefix(), text)?;
        if !is_credential(token.id()) {
            return Err(GrantFault::Malformed);
        }
        Ok(CredentialToken { class, token })
    }

    /// The plaintext: to be shown once.
    pub fn reveal(&self) -> String {
        self.token.reveal_with(self.class.prefix())
    }

    /// What it is for.
    pub fn class(&self) -> CredentialClass {
        self.class
    }

    /// The row it belongs to.
    pub fn id(&self) -> GrantId {
        self.token.id()
    }

    /// The token as grants know it.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Whether the row that was found under its id lets its bearer in now.
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

/// Whether a grant of this id is a credential.
pub fn is_credential(id: GrantId) -> bool {
    id.0 & BEHIND != 0
}

/// Before the first credential there can be.
pub fn before_all() -> GrantId {
    GrantId(BEHIND - 1)
}

/// What a worker may do beside living. Lists of patterns; an empty one allows nothing.
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
    /// What it may ask for beside its jobs.
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

/// A name, or the beginning of names before a `*`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

impl Pattern {
    /// Reads a pattern. A `*` stands at the end or nowhere.
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

    /// Whether it stands for this name.
    pub fn admits(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => self.0 == name,
        }
    }

    /// Whether it stands for every name that another pattern stands for.
    pub fn covers(&self, other: &str) -> bool {
        match other.strip_suffix('*') {
            Some(beginning) => self.0.strip_suffix('*').is_some_and(|own| beginning.starts_with(own)),
            None => self.admits(other),
        }
    }
}

/// Whether one of the patterns stands for every name that `asked` stands for, itself a name or a pattern.
pub fn covered(patterns: &[Pattern], asked: &str) -> bool {
    patterns.iter().any(|pattern| pattern.covers(asked))
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
    fn tokens_read_back_in_their_class_only() {
        for class in CredentialClass::ALL {
            let token = CredentialToken::new(class, 42, [7; 32]);
            let text = token.reveal();
            assert_eq!(CredentialToken::parse(&text), Ok(token));
            assert!(text.starts_with(class.prefix()));
            assert_eq!(Token::parse(&text), Err(GrantFault::Malformed), "it is no grant's");
            assert_eq!(CredentialToken::parse(&text[..text.len() - 1]), Err(GrantFault::Malformed));
            assert_eq!(CredentialClass::of(&class.purpose()), Some(class));
        }
        let grant = Token::new(GrantId(42), [7; 32]);
        assert_eq!(CredentialToken::parse(&grant.reveal()), Err(GrantFault::Malformed));
        assert_eq!(
            CredentialToken::parse(&grant.reveal_with("bwk_")),
            Err(GrantFault::Malformed),
            "no credential's id"
        );
    }

    #[test]
    fn who_is_let_in() {
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
    fn patterns_say_what_they_stand_for() {
        let pattern = |text: &str| Pattern::new(text).unwrap();
        for (own, asked, covers) in [
            ("media", "media", true),
            ("media", "media-2", false),
            ("media-*", "media-2", true),
            ("media-*", "media", false),
            ("media-*", "media-x*", true),
            ("media-*", "media*", false),
            ("media", "media*", false),
            ("*", "anything*", true),
        ] {
            assert_eq!(pattern(own).covers(asked), covers, "{own} {asked}");
        }
        assert!(!covered(&[], "media"), "an empty list allows nothing");
        assert!(Pattern::new("a*b").is_err() && Pattern::new("").is_err());
    }
}
