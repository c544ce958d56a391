//! Credentials: worker tokens and API keys.

use bursar_core::bounds::GRANT_TTL_MAX;
use bursar_core::credential::{Capabilities, CredentialClass};
use bursar_core::grant::{Grant, GrantState};
use bursar_core::id::{GrantId, KeyId, WorkerId};
use bursar_core::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::role::{self, Role};
use crate::stamp;

/// A worker to register.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerBody {
    pub name: String,
    /// What the worker may lease, and which scopes it may charge.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// How long its token is valid, in milliseconds; default: 90 days.
    #[serde(default)]
    #[schemars(range(min = 1, max = GRANT_TTL_MAX.millis()))]
    pub expires_in_ms: Option<i64>,
}

/// An API key to create.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyBody {
    pub name: String,
    /// What the key permits: a role other than `operator` and `worker`, which have tokens of their own.
    #[serde(deserialize_with = "role::of_key")]
    #[schemars(schema_with = "role::key_schema")]
    pub role: Role,
    /// How long the key is valid, in milliseconds; default: 90 days.
    #[serde(default)]
    #[schemars(range(min = 1, max = GRANT_TTL_MAX.millis()))]
    pub expires_in_ms: Option<i64>,
}

/// A token to replace.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RotateBody {
    /// How long the old token stays valid, in milliseconds; default: one day.
    pub overlap_ms: Option<i64>,
    /// How long the new token is valid, in milliseconds; default: 90 days, except that an operator's token does not expire.
    #[schemars(range(min = 1, max = GRANT_TTL_MAX.millis()))]
    pub expires_in_ms: Option<i64>,
}

/// A token that was created.
// It contains a secret: no `Debug`, so that it cannot reach a log.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
pub struct IssuedAnswer {
    pub id: String,
    /// The token. It is returned only once: `null` when the request is replayed.
    pub token: Option<String>,
    /// When the token expires; `null`: never.
    pub expires_at: Option<String>,
}

/// A credential, without its token.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CredentialAnswer {
    pub id: String,
    pub name: String,
    /// The role of an API key; missing for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The capabilities of a worker; missing for an API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// `good`, `expired` or `revoked`.
    pub state: Cow<'static, str>,
    /// When the credential expires; `null`: never.
    pub expires_at: Option<String>,
    /// When the token was last used, to the hour; missing in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

/// What the database stores with an API key or a worker's token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claims {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The first token of a chain of rotations, if this is a later one. All tokens of the chain are one principal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<GrantId>,
}

impl Claims {
    /// Reads the claims of a row; `None` if they cannot be parsed, so that the token allows nothing.
    pub fn of(grant: &Grant) -> Option<Claims> {
        serde_json::from_str(grant.payload.as_str()).ok()
    }
}

/// Returns the id of a credential with the prefix of its class.
pub fn credential_id(class: CredentialClass, id: GrantId) -> String {
    match class {
        CredentialClass::Worker => WorkerId(id.0).to_string(),
        CredentialClass::Operator | CredentialClass::Key | CredentialClass::Link => KeyId(id.0).to_string(),
    }
}

impl CredentialAnswer {
    /// Returns the credential at an instant; expiry follows from the time and is not stored.
    pub fn at(class: CredentialClass, grant: &Grant, now: Time) -> CredentialAnswer {
        let claims = Claims::of(grant);
        let state = match grant.state {
            GrantState::Revoked | GrantState::Redeemed => "revoked",
            GrantState::Open if grant.expires_at <= now => "expired",
            GrantState::Open => "good",
        };
        let worker = class == CredentialClass::Worker;
        CredentialAnswer {
            id: credential_id(class, grant.id),
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
