//! Credentials: what callers of a server show to say who they are.

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

/// What callers show to say who they are. From [`Bursar::credentials`].
#[derive(Clone, Copy)]
pub struct Credentials<'a>(pub(crate) &'a Bursar);

/// A credential that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Its row.
    pub id: GrantId,
    /// The plaintext, shown this once; `None` when an earlier answer is repeated.
    pub token: Option<String>,
    /// Until when it is good; [`Time::NEVER`] for ever.
    pub expires_at: Time,
}

/// Events of a credential that are looked at for its last use.
const RECENT: usize = 10;
/// Credentials that one call lists at most, and rows it reads at once.
const LIST_MAX: usize = 1_000;

impl Credentials<'_> {
    /// Makes a credential: of whom, with what is to be known of it, good for so long or for ever.
    pub async fn issue(
        &self,
        class: CredentialClass,
        subject: Subject,
        claims: Payload,
        ttl: Option<Duration>,
        key: Option<IdempotencyKey>,
    ) -> Result<Issued, Error> {
        let (token, mint) = self.mint(class, subject, claims, ttl);
        self.done(token, Op::Mint(mint), key).await
    }

    /// Makes a credential in the place of another of the same class, which is good for `overlap` yet, with what is to be known of
    /// the new one.
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
        self.done(token, Op::Rotate { grant: old.id, mint, overlap: overlap.into() }, key).await
    }

    /// Takes a credential back: it is no good from the next request on, on every node.
    pub async fn revoke(&self, id: GrantId, key: Option<IdempotencyKey>) -> Result<(), Error> {
        let request = Request { idempotency_key: key, ..Request::from(Op::Revoke { grant: id }) };
        self.0.request(request.in_context(self.0.context.clone())).await.map(drop)
    }

    /// A credential of this tenant.
    pub async fn find(&self, class: CredentialClass, id: GrantId) -> Result<Option<Grant>, Error> {
        let found = self.0.inner.store.grant(id).await?;
        Ok(found.filter(|grant| grant.tenant == self.0.context.tenant && grant.purpose == class.purpose()))
    }

    /// Credentials of this tenant and class after an id, by id, at most `limit` (from 1 to 1,000).
    pub async fn list(
        &self,
        class: CredentialClass,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<Grant>, Error> {
        self.list_of(&[class], after, limit).await
    }

    /// The same for several classes together.
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

    /// Writes down that a credential of this tenant was used. Who calls this for every use writes as often.
    pub async fn used(&self, id: GrantId) -> Result<(), Error> {
        self.0.execute(Op::Use { grant: id }).await.map(drop)
    }

    /// When a credential of this tenant was used last, as far as that was written down lately.
    pub async fn last_used(&self, id: GrantId) -> Result<Option<Time>, Error> {
        let events = self.0.journal().history(&Stream::Grant(id), RECENT).await?;
        let used = events.into_iter().find(|event| matches!(event.event, Event::GrantUsed { .. }));
        Ok(used.map(|event| event.at))
    }

    /// The row of a token, whoever's it is, if it lets its bearer in now. Read anew each time, so that a revoked one is no
    /// good on any node from the next time on.
    pub async fn admit(&self, token: &CredentialToken) -> Result<Result<Grant, GrantFault>, Error> {
        let found = self.0.inner.store.grant(token.id()).await?;
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

    async fn done(&self, token: CredentialToken, op: Op, key: Option<IdempotencyKey>) -> Result<Issued, Error> {
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
