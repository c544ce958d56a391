//! Grants on the wire.

use bursar::bounds::GRANT_TTL_MAX;
use bursar::{Grant, GrantId, GrantState, Minted, Payload, Purpose, Subject, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::stamp;

/// A grant to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MintBody {
    pub purpose: Purpose,
    pub subject: Subject,
    #[serde(default)]
    pub payload: Payload,
    #[schemars(range(min = 0, max = GRANT_TTL_MAX.millis()))]
    pub ttl_ms: i64,
}

/// A grant that was made. Its token is shown this once.
#[derive(Serialize, JsonSchema)]
pub struct MintedAnswer {
    id: GrantId,
    token: Option<String>,
    expires_at: Option<String>,
}

impl From<&Minted> for MintedAnswer {
    fn from(minted: &Minted) -> MintedAnswer {
        MintedAnswer { id: minted.id, token: minted.token.clone(), expires_at: stamp(minted.expires_at) }
    }
}

/// A grant that was redeemed.
#[derive(Serialize, JsonSchema)]
pub struct RedeemedAnswer {
    pub purpose: Purpose,
    pub subject: Subject,
    pub payload: Payload,
}

/// A grant without its secret.
#[derive(Serialize, JsonSchema)]
pub struct GrantAnswer {
    pub id: GrantId,
    pub purpose: Purpose,
    pub subject: Subject,
    pub payload: Payload,
    pub state: &'static str,
    pub expires_at: Option<String>,
}

impl GrantAnswer {
    /// The grant at an instant: that it has expired follows from time.
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
            state,
            expires_at: stamp(grant.expires_at),
        }
    }
}
