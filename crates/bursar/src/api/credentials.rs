//! Credentials: tokens that authenticate callers of a server.

use std::time::Duration;

use bursar_core::answer::Answer;
use bursar_core::credential::{CredentialClass, CredentialToken, before_all};
use bursar_core::event::{Event, Stream};
use bursar_core::grant::{Grant, GrantFault};
use bursar_core::id::GrantId;
use bursar_core::name::{IdempotencyKey, Subject};
use bursar_core::page::{cut, is_full};
use bursar_core::payload::Payload;
use bursar_core::request::{Mint, Op, Request};
use bursar_core::time::{Span, Time};

use crate::api::held::unexpected;
use crate::api::instance::Bursar;
use crate::error::Error;
use crate::ids::random;

/// Credentials of a server's callers. From [`Bursar::credentials`].
#[derive(Clone, Copy)]
pub struct Credentials<'a>(pub(crate) &'a Bursar);

/// A new credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The id of the credential.
    pub id: GrantId,
    /// The plaintext token, which is not stored; `None` if the answer is a replay.
    pub token: Option<String>,
    /// When it expires; [`Time::NEVER`] if it does not.
    pub expires_at: Time,
}

/// The number of recent events of a credential that are searched for its last use.
const RECENT_EVENTS: usize = 10;
/// The most credentials that one call lists, and the most rows it reads at once.
const LIST_MAX: usize = 1_000;

impl Credentials<'_> {
    /// Creates a credential of `class` for `subject`, with `claims` as its payload. It is valid for `ttl`, or without end if
    /// `ttl` is `None`. With a key, a retry returns the first answer, without the token.
    pub async fn issue(
        &self,
        class: CredentialClass,
        subject: Subject,
        claims: Payload,
        ttl: Option<Duration>,
        key: Option<IdempotencyKey>,
    ) -> Result<Issued, Error> {
        let (token, mint) = self.mint(class, subject, claims, ttl);
        self.execute(token, Op::Mint(mint), key).await
    }

    /// Creates a credential that replaces `old`, which must be of the same class. In the same transaction the validity of
    /// `old` is cut to `overlap` from now, if it was longer.
    pub async fn rotate(
        &self,
        old: &Grant,
        class: CredentialClass,
        claims: Payload,
        ttl: Option<Duration>,
        overlap: Duration,
        key: Option<IdempotencyKey>,
    ) -> Result<Issued, Error> {
        let (token, mint) = self.mint(class, old.subject.clone(), claims, ttl);
        self.execute(token, Op::Rotate { grant: old.id, mint, overlap: overlap.into() }, key).await
    }

    /// Revokes a credential. It is invalid on every node from the next request on.
    pub async fn revoke(&self, id: GrantId, key: Option<IdempotencyKey>) -> Result<(), Error> {
        let request = Request { idempotency_key: key, ..Request::from(Op::Revoke { grant: id }) };
        self.0.request(request.in_context(self.0.context.clone())).await.map(drop)
    }

    /// Returns a credential of this tenant and class.
    pub async fn find(&self, class: CredentialClass, id: GrantId) -> Result<Option<Grant>, Error> {
        let found = self.0.inner.store.grant(&self.0.context.tenant, id).await?;
        Ok(found.filter(|grant| grant.purpose == class.purpose()))
    }

    /// Lists the credentials of this tenant and class after an id, in the order of ids, at most `limit` (from 1 to 1,000).
    pub async fn list(
        &self,
        class: CredentialClass,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, Error> {
        self.list_of(&[class], after, limit).await
    }

    /// Lists the credentials of several classes together, like [`Credentials::list`].
    pub async fn list_of(
        &self,
        classes: &[CredentialClass],
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, Error> {
        let limit = limit.clamp(1, LIST_MAX);
        let purposes: Vec<_> = classes.iter().map(|class| class.purpose()).collect();
        let mut after = after.unwrap_or(before_all()).max(before_all());
        let mut found = Vec::new();
        loop {
            let page = self.0.inner.store.list_grants(&self.0.context.tenant, Some(after), LIST_MAX).await?;
            let (full, last) = (is_full(&page, LIST_MAX), page.last().map(|grant| grant.id));
            found.extend(page.into_iter().filter(|grant| purposes.contains(&grant.purpose)).take(limit - found.len()));
            match last {
                Some(last) if full && found.len() < limit => after = last,
                _ => return Ok(cut(found, limit)),
            }
        }
    }

    /// Records that a credential of this tenant was used. Each call is a commit, so callers should not record every use.
    pub async fn used(&self, id: GrantId) -> Result<(), Error> {
        self.0.execute(Op::Use { grant: id }).await.map(drop)
    }

    /// Returns when a credential of this tenant was last recorded as used. Searches only its ten most recent events.
    pub async fn last_used(&self, id: GrantId) -> Result<Option<Time>, Error> {
        let events = self.0.journal().history(&Stream::Grant(id), RECENT_EVENTS).await?;
        let used = events.into_iter().find(|event| matches!(event.event, Event::GrantUsed { .. }));
        Ok(used.map(|event| event.at))
    }

    /// Returns the credential of a token, of any tenant, or why the token is not valid now. Each call reads the row, so a
    /// revocation takes effect on every node at once.
    pub async fn admit(&self, token: &CredentialToken) -> Result<Result<Grant, GrantFault>, Error> {
        let found = self.0.inner.store.grant_of_any_tenant(token.id()).await?;
        let now = match &found {
            Some(grant) if grant.expires_at != Time::NEVER => self.0.now().await?,
            _ => Time::MIN,
        };
        Ok(token.admit(found.as_ref(), now).cloned())
    }

    fn mint(
        &self,
        class: CredentialClass,
        subject: Subject,
        payload: Payload,
        ttl: Option<Duration>,
    ) -> (CredentialToken, Mint) {
        let mut secret = [0; 32];
        random(&mut secret);
        let token = CredentialToken::new(class, self.0.next_id(), secret);
        let ttl = ttl.map_or(Span::from_micros(i64::MAX), Span::from);
        let digest = token.token().digest();
        let mint = Mint { id: token.id(), digest, purpose: class.purpose(), subject, payload, ttl };
        (token, mint)
    }

    async fn execute(&self, token: CredentialToken, op: Op, key: Option<IdempotencyKey>) -> Result<Issued, Error> {
        let request = Request { idempotency_key: key, ..Request::from(op) };
        let outcome = self.0.request(request.in_context(self.0.context.clone())).await?;
        match outcome.answer {
            Answer::Minted { grant, expires_at } => {
                let token = (!outcome.replayed).then(|| token.reveal());
                Ok(Issued { id: grant, token, expires_at })
            }
            other => Err(unexpected(&other)),
        }
    }
}
