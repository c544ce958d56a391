//! Decides operations on grants and credentials: mint, redeem, rotate, use, revoke, purge.
//!
//! A grant is redeemed at most once, before it expires, and only for the purpose and subject it was minted for. A grant
//! of another tenant is treated as unknown.

use std::collections::BTreeSet;

use crate::context::Context;
use crate::credential::is_credential;
use crate::event::Event;
use crate::grant::{Grant, GrantFault, GrantState};
use crate::id::GrantId;
use crate::mutant::Mutant;
use crate::name::Tenant;
use crate::payload::Payload;
use crate::refusal::{Refusal, Violation};
use crate::request::{Mint, Redemption};
use crate::state::Workspace;
use crate::time::Span;

/// Creates a grant.
pub(super) fn mint(ws: &Workspace, mint: &Mint) -> Vec<Event> {
    vec![Event::GrantMinted {
        grant: mint.id,
        digest: mint.digest,
        purpose: mint.purpose.clone(),
        subject: mint.subject.clone(),
        payload: mint.payload.clone(),
        expires_at: ws.now.after(mint.ttl),
    }]
}

/// Redeems grants, and returns the payload of the first; or returns a violation for each that is not valid.
pub(super) fn redeem(
    ws: &Workspace,
    tenant: &Tenant,
    redemptions: &[Redemption],
) -> Result<(Vec<Event>, Option<Payload>), Vec<Violation>> {
    let mut seen = BTreeSet::new();
    let (mut events, mut violations, mut first) = (Vec::new(), Vec::new(), None);
    for redemption in redemptions {
        let grant = match seen.insert(redemption.grant) {
            true => redeemable(ws, tenant, redemption),
            false => Err(GrantFault::Redeemed),
        };
        match grant {
            Ok(grant) => {
                first.get_or_insert_with(|| grant.payload.clone());
                events.push(Event::GrantRedeemed { grant: grant.id, purpose: grant.purpose.clone() });
            }
            Err(fault) => violations.push(Violation::Grant { purpose: redemption.purpose.clone(), fault }),
        }
    }
    if violations.is_empty() { Ok((events, first)) } else { Err(violations) }
}

/// Returns the grant that a redemption names, or why it cannot be redeemed.
fn redeemable<'a>(ws: &'a Workspace, tenant: &Tenant, redemption: &Redemption) -> Result<&'a Grant, GrantFault> {
    let grant = ws.grants.get(&redemption.grant).filter(|grant| grant.tenant == *tenant).ok_or(GrantFault::Unknown)?;
    if grant.digest != redemption.digest {
        return Err(GrantFault::Wrong);
    }
    if grant.purpose != redemption.purpose || grant.subject != redemption.subject {
        return Err(GrantFault::Mismatch);
    }
    match grant.state {
        GrantState::Redeemed if Mutant::RedeemTwice.on() => Ok(grant),
        GrantState::Redeemed => Err(GrantFault::Redeemed),
        GrantState::Revoked => Err(GrantFault::Revoked),
        GrantState::Open if grant.expires_at <= ws.now && !Mutant::RedeemExpired.on() => Err(GrantFault::Expired),
        GrantState::Open => Ok(grant),
    }
}

/// Mints a credential that replaces another one of the tenant. The old one stays valid for `overlap`, but no longer
/// than it would have been.
pub(super) fn rotate(
    ws: &Workspace,
    context: &Context,
    id: GrantId,
    new: &Mint,
    overlap: Span,
) -> Result<Vec<Event>, Refusal> {
    let grant = ws.grants.get(&id).filter(|grant| grant.tenant == context.tenant && grant.purpose == new.purpose);
    let grant = grant.ok_or(Refusal::UnknownGrant { grant: id })?;
    if grant.state != GrantState::Open || grant.expires_at <= ws.now {
        return Err(Refusal::GrantOver { grant: id });
    }
    let mut events = mint(ws, new);
    let expires_at = ws.now.after(overlap.max(Span::ZERO));
    if expires_at < grant.expires_at {
        events.push(Event::GrantCurtailed { grant: id, expires_at });
    }
    Ok(events)
}

/// Records the use of a credential. Records nothing if it has expired or was revoked.
pub(super) fn used(ws: &Workspace, context: &Context, id: GrantId) -> Result<Vec<Event>, Refusal> {
    let grant = ws.grants.get(&id).filter(|grant| grant.tenant == context.tenant);
    let grant = grant.ok_or(Refusal::UnknownGrant { grant: id })?;
    let good = grant.state == GrantState::Open && grant.expires_at > ws.now;
    Ok(good.then_some(Event::GrantUsed { grant: id }).into_iter().collect())
}

/// Revokes a grant; does nothing if it was revoked before.
pub(super) fn revoke(ws: &Workspace, context: &Context, id: GrantId) -> Result<Vec<Event>, Refusal> {
    let grant = ws.grants.get(&id).filter(|grant| grant.tenant == context.tenant);
    match grant.ok_or(Refusal::UnknownGrant { grant: id })?.state {
        GrantState::Open => Ok(vec![Event::GrantRevoked { grant: id }]),
        GrantState::Revoked => Ok(Vec::new()),
        GrantState::Redeemed => Err(Refusal::AlreadyRedeemed { grant: id }),
    }
}

/// Erases the payload of a grant that can no longer be redeemed; does nothing if it was erased before. The payload of a
/// credential is what it permits, and stays.
pub(super) fn erase(ws: &Workspace, context: &Context, id: GrantId) -> Result<Vec<Event>, Refusal> {
    let grant = ws.grants.get(&id).filter(|grant| grant.tenant == context.tenant && !is_credential(id));
    let grant = grant.ok_or(Refusal::UnknownGrant { grant: id })?;
    if grant.payload.is_erased() {
        return Ok(Vec::new());
    }
    if grant.state == GrantState::Open && grant.expires_at > ws.now && !Mutant::EraseOpenGrant.on() {
        return Err(Refusal::GrantOpen { grant: id });
    }
    Ok(vec![Event::GrantErased { grant: id }])
}

/// Removes those of the grants that have expired.
pub(super) fn purge(ws: &Workspace, context: &Context, grants: &[GrantId]) -> Vec<Event> {
    let grants: BTreeSet<&GrantId> = grants.iter().collect();
    let expired = grants
        .into_iter()
        .filter_map(|id| ws.grants.get(id))
        .filter(|grant| grant.tenant == context.tenant && grant.expires_at <= ws.now);
    expired.map(|grant| Event::GrantPurged { grant: grant.id }).collect()
}
