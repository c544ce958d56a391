//! Grants on the wire.

#[cfg(feature = "library")]
use bursar::Minted;
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

/// A grant to be made.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
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
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
pub struct MintedAnswer {
    pub id: GrantId,
    pub token: Option<String>,
    pub expires_at: Option<String>,
}

#[cfg(feature = "library")]
impl From<&Minted> for MintedAnswer {
    fn from(minted: &Minted) -> MintedAnswer {
        MintedAnswer { id: minted.id, token: minted.token.clone(), expires_at: stamp(minted.expires_at) }
    }
}

/// A grant that was redeemed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RedeemedAnswer {
    pub purpose: Purpose,
    pub subject: Subject,
    pub payload: Payload,
}

/// A grant without its secret.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct GrantAnswer {
    pub id: GrantId,
    pub purpose: Purpose,
    pub subject: Subject,
    pub payload: Payload,
    pub state: Cow<'static, str>,
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
            state: state.into(),
            expires_at: stamp(grant.expires_at),
        }
    }
}
