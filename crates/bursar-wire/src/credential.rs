//! Tokens of workers and API keys on the wire.

#[cfg(feature = "library")]
use bursar::Issued;
use bursar_core::bounds::GRANT_TTL_MAX;
use bursar_core::credential::{Capabilities, CredentialClass};
use bursar_core::grant::{Grant, GrantState};
use bursar_core::id::{GrantId, KeyId, WorkerId};
use bursar_core::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::role::Role;
use crate::stamp;

/// A worker to be known.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerBody {
    pub name: String,
    #[serde(default)]
    pub capabilities: Capabilities,
    /// How long its token is good; 90 days unless it is said.
    #[serde(default)]
    #[schemars(range(min = 1, max = GRANT_TTL_MAX.millis()))]
    pub expires_in_ms: Option<i64>,
}

/// An API key to be made.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyBody {
    pub name: String,
    pub role: Role,
    /// How long it is good; 90 days unless it is said.
    #[serde(default)]
    #[schemars(range(min = 1, max = GRANT_TTL_MAX.millis()))]
    pub expires_in_ms: Option<i64>,
}

/// A token to be replaced.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RotateBody {
    /// How long the old one is good yet; a day unless it is said.
    pub overlap_ms: Option<i64>,
    /// How long the new one is good; 90 days unless it is said, an operator's for ever.
    #[schemars(range(min = 1, max = GRANT_TTL_MAX.millis()))]
    pub expires_in_ms: Option<i64>,
}

/// A token that was made. It is shown this once: `null` when an earlier answer is repeated.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
pub struct IssuedAnswer {
    pub id: String,
    pub token: Option<String>,
    pub expires_at: Option<String>,
}

/// A token without its secret.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CredentialAnswer {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    pub state: Cow<'static, str>,
    pub expires_at: Option<String>,
    /// To the hour, and not told in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

/// What is kept with an API key or a worker's token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claims {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The first of the tokens that took each other's place, where this is a later one: they are one principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<GrantId>,
}

impl Claims {
    /// What is kept with a row. What cannot be read allows nothing.
    pub fn of(grant: &Grant) -> Option<Claims> {
        serde_json::from_str(grant.payload.as_str()).ok()
    }
}

/// The id of a token as it is told.
pub fn shown_id(class: CredentialClass, id: GrantId) -> String {
    match class {
        CredentialClass::Worker => WorkerId(id.0).to_string(),
        CredentialClass::Operator | CredentialClass::Key => KeyId(id.0).to_string(),
    }
}

#[cfg(feature = "library")]
impl IssuedAnswer {
    pub fn of(class: CredentialClass, issued: Issued) -> IssuedAnswer {
        IssuedAnswer { id: shown_id(class, issued.id), token: issued.token, expires_at: stamp(issued.expires_at) }
    }
}

impl CredentialAnswer {
    /// The token at an instant: that it has expired follows from time.
    pub fn at(class: CredentialClass, grant: &Grant, now: Time) -> CredentialAnswer {
        let claims = Claims::of(grant);
        let state = match grant.state {
            GrantState::Revoked | GrantState::Redeemed => "revoked",
            GrantState::Open if grant.expires_at <= now => "expired",
            GrantState::Open => "good",
        };
        let worker = class == CredentialClass::Worker;
        CredentialAnswer {
            id: shown_id(class, grant.id),
            name: grant.subject.to_string(),
            role: match class {
                CredentialClass::Operator => Some(Role::Operator),
                _ => claims.as_ref().and_then(|claims| claims.role),
            },
            capabilities: claims.filter(|_| worker).map(|claims| claims.capabilities),
            state: state.into(),
            expires_at: stamp(grant.expires_at),
            last_used_at: None,
        }
    }
}
