//! Grants: `/v1/grants`.

use bursar_core::bounds::GRANT_TTL_MAX;
use bursar_core::grant::{Grant, GrantState};
use bursar_core::id::GrantId;
use bursar_core::name::{Purpose, Subject};
use bursar_core::payload::Payload;
use bursar_core::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::stamp;

/// A grant to create.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MintBody {
    /// What the grant allows; a redemption must name the same purpose.
    pub purpose: Purpose,
    /// The subject that may use the grant; a redemption must name the same subject.
    pub subject: Subject,
    /// JSON that a redemption returns; default: `null`.
    #[serde(default)]
    pub payload: Payload,
    /// How long the grant can be redeemed, in milliseconds.
    #[schemars(range(min = 0, max = GRANT_TTL_MAX.millis()))]
    pub ttl_ms: i64,
}

/// A grant that was created.
// It contains a secret: no `Debug`, so that it cannot reach a log.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
pub struct MintedAnswer {
    pub id: GrantId,
    /// The token. It is returned only once: `null` when the request is replayed.
    pub token: Option<String>,
    /// Until when the grant can be redeemed.
    pub expires_at: Option<String>,
}

/// A grant that was redeemed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RedeemedGrant {
    pub purpose: Purpose,
    pub subject: Subject,
    pub payload: Payload,
}

/// A grant, without its token.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct GrantAnswer {
    pub id: GrantId,
    pub purpose: Purpose,
    pub subject: Subject,
    pub payload: Payload,
    /// `open`, `redeemed`, `revoked` or `expired`.
    pub state: Cow<'static, str>,
    /// Until when the grant can be redeemed.
    pub expires_at: Option<String>,
}

impl GrantAnswer {
    /// Returns the grant at an instant; expiry follows from the time and is not stored.
    pub fn at(grant: &Grant, now: Time) -> GrantAnswer {
        let state = match grant.state {
            GrantState::Open if grant.expires_at <= now => "expired",
            GrantState::Open => "open",
            GrantState::Redeemed => "redeemed",
            GrantState::Revoked => "revoked",
        };
        GrantAnswer {
            id: grant.id,
            purpose: grant.purpose.clone(),
            subject: grant.subject.clone(),
            payload: grant.payload.clone(),
            state: state.into(),
            expires_at: stamp(grant.expires_at),
        }
    }
}
