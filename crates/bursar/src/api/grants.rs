//! Grants: single-use permissions, presented as tokens.

use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::bounds::SWEEP_MAX;
use bursar_core::credential::{before_all, is_credential};
use bursar_core::grant::{Grant, Token};
use bursar_core::id::GrantId;
use bursar_core::name::{IdempotencyKey, Purpose, Subject};
use bursar_core::payload::Payload;
use bursar_core::refusal::Invalid;
use bursar_core::request::{Mint, Op, Request};
use bursar_core::time::{Span, Time};
use sqlx::PgConnection;

use crate::api::command::Receipt;
use crate::api::held::unexpected;
use crate::api::instance::Bursar;
use crate::error::Error;
use crate::ids::random;

/// Single-use permissions. From [`Bursar::grants`].
#[derive(Clone, Copy)]
pub struct Grants<'a>(pub(crate) &'a Bursar);

/// A new grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The id of the grant.
    pub id: GrantId,
    /// The plaintext token, which is not stored; `None` if the answer is a replay.
    pub token: Option<String>,
    /// When it expires. From then on it cannot be redeemed.
    pub expires_at: Time,
}

impl Grants<'_> {
    /// Creates a grant for a purpose and a subject, valid for `ttl` (at most 366 days). `payload` is returned to the caller
    /// that redeems it.
    pub async fn mint<P, S>(&self, purpose: P, subject: S, payload: Payload, ttl: Duration) -> Result<Minted, Error>
    where
        P: TryInto<Purpose, Error = Invalid>,
        S: TryInto<Subject, Error = Invalid>,
    {
        self.mint_with(purpose.try_into()?, subject.try_into()?, payload, ttl, None).await
    }

    /// Creates a grant, like [`Grants::mint`]. With a key, a retry returns the first answer, without the token.
    pub async fn mint_with(
        &self,
        purpose: Purpose,
        subject: Subject,
        payload: Payload,
        ttl: Duration,
        key: Option<IdempotencyKey>,
    ) -> Result<Minted, Error> {
        let mut secret = [0; 32];
        random(&mut secret);
        let token = Token::new(GrantId(self.0.next_id()), secret);
        let mint = Mint { id: token.id(), digest: token.digest(), purpose, subject, payload, ttl: Span::from(ttl) };
        let request = Request { idempotency_key: key, ..Request::from(Op::Mint(mint)) };
        let outcome = self.0.request(request.in_context(self.0.context.clone())).await?;
        match outcome.answer {
            Answer::Minted { grant, expires_at } => {
                let token = (!outcome.replayed).then(|| token.reveal());
                Ok(Minted { id: grant, token, expires_at })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Redeems a token in a command of its own and returns its payload. Refused, with nothing changed, if the token is not
    /// valid for this purpose and subject.
    pub async fn redeem<P, S>(&self, purpose: P, subject: S, token: &str) -> Result<Payload, Error>
    where
        P: TryInto<Purpose, Error = Invalid>,
        S: TryInto<Subject, Error = Invalid>,
    {
        Ok(payload(&self.0.command().redeem(purpose, subject, token).submit().await?))
    }

    /// Redeems a token in the caller's own PostgreSQL transaction; see
    /// [`CommandBuilder::submit_in`](crate::CommandBuilder::submit_in). A rollback leaves the token redeemable.
    pub async fn redeem_in<P, S>(
        &self,
        conn: &mut PgConnection,
        purpose: P,
        subject: S,
        token: &str,
    ) -> Result<(Payload, Receipt), Error>
    where
        P: TryInto<Purpose, Error = Invalid>,
        S: TryInto<Subject, Error = Invalid>,
    {
        let receipt = self.0.command().redeem(purpose, subject, token).submit_in(conn).await?;
        Ok((payload(&receipt), receipt))
    }

    /// Revokes a grant. It can no longer be redeemed.
    pub async fn revoke(&self, grant: GrantId) -> Result<(), Error> {
        self.0.execute(Op::Revoke { grant }).await.map(drop)
    }

    /// Erases the payload of a grant that was redeemed or revoked or has expired, for privacy, also in the journal. Refused if the
    /// grant can still be redeemed. If the call fails, call it again: it goes on where it was.
    pub async fn erase(&self, grant: GrantId) -> Result<(), Error> {
        self.0.execute(Op::EraseGrant { grant }).await.map(drop)
    }

    /// Returns a grant of this tenant. The secret is not stored.
    pub async fn find(&self, id: GrantId) -> Result<Option<Grant>, Error> {
        let found = self.0.inner.store.grant(&self.0.context.tenant, id).await?;
        Ok(found.filter(|grant| !is_credential(grant.id)))
    }

    /// Lists grants of this tenant after an id, in the order of ids, at most `limit` (at most 1,000).
    pub async fn list(&self, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>, Error> {
        let mut found = self.0.inner.store.list_grants(&self.0.context.tenant, after, limit.min(1_000)).await?;
        // Credentials are rows of the same table, with ids above those of all grants.
        found.retain(|grant| !is_credential(grant.id));
        Ok(found)
    }

    /// Lists grants of this tenant before an id, the newest first, at most `limit` (at most 1,000).
    pub async fn newest(&self, before: Option<GrantId>, limit: usize) -> Result<Vec<Grant>, Error> {
        let before = before.unwrap_or(before_all()).min(before_all());
        Ok(self.0.inner.store.list_newest_grants(&self.0.context.tenant, before, limit.min(1_000)).await?)
    }

    /// Deletes this tenant's expired grants and credentials, and returns how many. Each page of grants is a commit.
    pub async fn purge_expired(&self) -> Result<usize, Error> {
        let (mut after, mut purged) = (None, 0);
        let now = self.0.now().await?;
        loop {
            let page = self.0.inner.store.list_grants(&self.0.context.tenant, after, SWEEP_MAX).await?;
            let Some(last) = page.last() else { return Ok(purged) };
            after = Some(last.id);
            let grants: Vec<GrantId> = page.iter().filter(|g| g.expires_at <= now).map(|g| g.id).collect();
            if grants.is_empty() {
                continue;
            }
            if let Answer::Swept { count } = self.0.execute(Op::PurgeGrants { grants }).await? {
                purged += count;
            }
        }
    }
}

fn payload(receipt: &Receipt) -> Payload {
    receipt.done.grants.first().and_then(|grant| grant.payload.clone()).unwrap_or_default()
}
