//! Grants on the wire.

use bursar::{Grant, GrantId, GrantState, Minted, Payload, Purpose, Subject, Time};
use serde::Serialize;

use crate::wire::stamp;

/// A grant that was made. Its token is shown this once.
#[derive(Serialize)]
pub(crate) struct MintedAnswer {
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
#[derive(Serialize)]
pub(crate) struct RedeemedAnswer {
    pub(crate) purpose: Purpose,
    pub(crate) subject: Subject,
    pub(crate) payload: Payload,
}

/// A grant without its secret.
#[derive(Serialize)]
pub(crate) struct GrantAnswer {
    pub(crate) id: GrantId,
    pub(crate) purpose: Purpose,
    pub(crate) subject: Subject,
    pub(crate) payload: Payload,
    pub(crate) state: &'static str,
    pub(crate) expires_at: Option<String>,
}

impl GrantAnswer {
    /// The grant at an instant: that it has expired follows from time.
    pub(crate) fn at(grant: &Grant, now: Time) -> GrantAnswer {
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
