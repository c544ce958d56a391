//! Reservations of limited capacity: seats, rooms, time slots. The application says how much there is; Bursar holds and
//! counts the reserved part.

use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::budget::{Cover, Limit};
use bursar_core::hold::HoldState;
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Actual, Charge, Op, Request};
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::StoreError;
use sqlx::PgConnection;

use crate::api::command::{CommandBuilder, Receipt};
use crate::api::held::unexpected;
use crate::api::instance::{Backend, Bursar, no_transactions};
use crate::api::transaction::Transaction;
use crate::error::Error;
use crate::maintenance::Swept;

/// The error of the application's function that reads the capacity.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// A resource of limited capacity, such as the seats of a show or the rooms of a hotel.
///
/// The capacity is read after the scope is locked, in the same transaction as the hold. Implement the function of the
/// database in use.
pub trait Resource: Send + Sync + 'static {
    /// Identifies the resource: a show, a hotel.
    type Key: Display + Send + Sync;
    /// The date or session that the capacity is for; `&'static str` or `String` if there is none.
    type Window: Display + Send + Sync;
    /// The kind of the resource, with which its scopes begin: `seat`.
    const KIND: &'static str;
    /// What happens to a late commit or an overrun. Refused by default, because another caller may have reserved the
    /// capacity since.
    const COVER: Cover = Cover::Refuse;

    /// Returns the capacity, on SQLite.
    fn capacity_sqlite(
        _: &rusqlite::Connection,
        _: &Self::Key,
        _: &Self::Window,
    ) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("the resource {:?} has no capacity on SQLite: implement `capacity_sqlite`", Self::KIND).into())
    }

    /// Returns the capacity, on PostgreSQL.
    fn capacity_postgres(
        _: &mut PgConnection,
        _: &Self::Key,
        _: &Self::Window,
    ) -> impl Future<Output = Result<i64, Box<dyn std::error::Error + Send + Sync>>> + Send {
        async {
            let kind = Self::KIND;
            Err(format!("the resource {kind:?} has no capacity on PostgreSQL: implement `capacity_postgres`").into())
        }
    }
}

/// Reservations of one kind of resource. From [`Bursar::reservations`].
pub struct ReservationKernel<R> {
    bursar: Bursar,
    resource: PhantomData<fn() -> R>,
}

/// A reservation: a hold on the capacity of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// The id of its hold.
    pub id: HoldId,
    /// When it expires unless it is committed.
    pub expires_at: Time,
    /// The capacity that is left.
    pub remaining: i64,
    /// The receipt, to pass to [`Bursar::announce`] after the caller's own transaction has committed.
    pub receipt: Receipt,
}

/// Why a reservation was not placed, settled or extended. Nothing was changed, except where [`Error`] says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReservationError {
    /// The capacity that is left is not enough.
    #[error("reservation: {requested} requested, {available} of {capacity} available")]
    Insufficient {
        /// The units requested.
        requested: i64,
        /// The units left.
        available: i64,
        /// The capacity of the resource.
        capacity: i64,
    },
    /// The reservation is in another state: it was settled, or has expired.
    #[error("reservation: {id} is {actual}, not {expected}")]
    ConflictingState {
        /// The id of the reservation.
        id: HoldId,
        /// The required state.
        expected: HoldState,
        /// The current state.
        actual: HoldState,
    },
    /// There is no such reservation.
    #[error("reservation: there is no {id}")]
    NotFound {
        /// The id requested.
        id: HoldId,
    },
    /// The application's function could not read the capacity.
    #[error("reservation: the capacity could not be read: {0}")]
    Capacity(#[source] Source),
    /// Any other error.
    #[error("reservation: {0}")]
    Other(#[source] Error),
}

impl From<Error> for ReservationError {
    fn from(error: Error) -> ReservationError {
        match error {
            Error::Refused(Refusal::Refused(violations)) => match violations.as_slice() {
                [Violation::Limit { limit, requested, available, .. }, ..] => {
                    ReservationError::Insufficient { requested: *requested, available: *available, capacity: *limit }
                }
                _ => ReservationError::Other(Error::Refused(Refusal::Refused(violations))),
            },
            Error::Refused(Refusal::AlreadySettled { hold, state }) => {
                ReservationError::ConflictingState { id: hold, expected: HoldState::Held, actual: state }
            }
            Error::Refused(Refusal::LateRefused { hold, .. } | Refusal::HoldExpired { hold, .. }) => {
                ReservationError::ConflictingState { id: hold, expected: HoldState::Held, actual: HoldState::Expired }
            }
            Error::Refused(Refusal::UnknownHold { hold }) => ReservationError::NotFound { id: hold },
            other => ReservationError::Other(other),
        }
    }
}

impl Bursar {
    /// Returns the reservations of a kind of resource.
    pub fn reservations<R: Resource>(&self) -> ReservationKernel<R> {
        ReservationKernel { bursar: self.clone(), resource: PhantomData }
    }
}

impl<R: Resource> ReservationKernel<R> {
    /// Reserves `amount` units of a resource's capacity for `ttl`, in a transaction of its own. Fails with
    /// [`ReservationError::Insufficient`] if less is left.
    pub async fn hold(
        &self,
        key: &R::Key,
        window: &R::Window,
        amount: i64,
        ttl: Duration,
    ) -> Result<Reservation, ReservationError>
    where
        R::Key: Clone + 'static,
        R::Window: Clone + 'static,
    {
        match &self.bursar.inner.backend {
            Backend::Sqlite(_) => {
                let bursar = self.bursar.clone();
                let this = ReservationKernel::<R> { bursar, resource: PhantomData };
                let (key, window) = (key.clone(), window.clone());
                self.bursar.transaction(move |tx| this.hold_within(tx, &key, &window, amount, ttl)).await
            }
            Backend::Postgres(store) => {
                // Waiting for a scope's lock occupies a connection, and the committers need some too.
                let _permit = self.bursar.inner.reservation_permit().await?;
                let mut tx = store.begin_own().await.map_err(Error::from)?;
                let reservation = self.hold_in(&mut tx, key, window, amount, ttl).await?;
                store.finish(tx).await.map_err(Error::from)?;
                self.bursar.announce([&reservation.receipt]);
                Ok(reservation)
            }
            Backend::Other => Err(Error::from(no_transactions()).into()),
        }
    }

    /// Reserves in the caller's own PostgreSQL transaction (READ COMMITTED), which keeps the scope locked until it ends.
    /// The caller commits it and then passes the receipt to [`Bursar::announce`].
    pub async fn hold_in(
        &self,
        conn: &mut PgConnection,
        key: &R::Key,
        window: &R::Window,
        amount: i64,
        ttl: Duration,
    ) -> Result<Reservation, ReservationError> {
        let scope = self.scope(key, window)?;
        let Backend::Postgres(store) = &self.bursar.inner.backend else {
            let hint = "this Bursar uses SQLite: call `hold_within`";
            return Err(Error::from(StoreError::WrongTransaction(hint.into())).into());
        };
        store.lock_scope(conn, &(self.bursar.context.tenant.clone(), scope.clone())).await.map_err(Error::from)?;
        let capacity = R::capacity_postgres(conn, key, window).await.map_err(ReservationError::Capacity)?;
        reservation(self.command(scope, amount, capacity, ttl).submit_in(conn).await?)
    }

    /// Reserves in the caller's own SQLite transaction. It needs no further lock, because SQLite has one writer.
    pub fn hold_within(
        &self,
        tx: &mut Transaction<'_, '_>,
        key: &R::Key,
        window: &R::Window,
        amount: i64,
        ttl: Duration,
    ) -> Result<Reservation, ReservationError> {
        let capacity = R::capacity_sqlite(tx.connection(), key, window).map_err(ReservationError::Capacity)?;
        let scope = self.scope(key, window)?;
        reservation(tx.submit(self.command(scope, amount, capacity, ttl))?)
    }

    /// Commits a reservation, so that it no longer expires.
    pub async fn commit(&self, id: HoldId) -> Result<(), ReservationError> {
        Ok(self.bursar.ledger().commit(id, Actual::Held).await.map(drop)?)
    }

    /// Commits a reservation in the caller's own PostgreSQL transaction; see [`ReservationKernel::hold_in`].
    pub async fn commit_in(&self, conn: &mut PgConnection, id: HoldId) -> Result<Receipt, ReservationError> {
        Ok(Receipt::from(self.request_in(conn, commit_op(id)).await?))
    }

    /// Commits a reservation in the caller's own SQLite transaction.
    pub fn commit_within(&self, tx: &mut Transaction<'_, '_>, id: HoldId) -> Result<(), ReservationError> {
        self.request_within(tx, commit_op(id)).map(drop)
    }

    /// Releases a reservation, which frees its capacity. `reason` is recorded in the journal.
    pub async fn release(&self, id: HoldId, reason: impl Into<String>) -> Result<(), ReservationError> {
        Ok(self.bursar.ledger().release(id, reason).await.map(drop)?)
    }

    /// Releases a reservation in the caller's own PostgreSQL transaction; see [`ReservationKernel::hold_in`].
    pub async fn release_in(
        &self,
        conn: &mut PgConnection,
        id: HoldId,
        reason: impl Into<String>,
    ) -> Result<Receipt, ReservationError> {
        Ok(Receipt::from(self.because(reason).request_in(conn, Op::Release { hold: id }).await?))
    }

    /// Releases a reservation in the caller's own SQLite transaction.
    pub fn release_within(
        &self,
        tx: &mut Transaction<'_, '_>,
        id: HoldId,
        reason: impl Into<String>,
    ) -> Result<(), ReservationError> {
        self.because(reason).request_within(tx, Op::Release { hold: id }).map(drop)
    }

    /// Extends the expiry of a reservation by `by` and returns the new one.
    pub async fn extend(&self, id: HoldId, by: Duration) -> Result<Time, ReservationError> {
        Ok(self.bursar.ledger().extend(id, by).await?)
    }

    /// Extends a reservation in the caller's own PostgreSQL transaction; see [`ReservationKernel::hold_in`].
    pub async fn extend_in(
        &self,
        conn: &mut PgConnection,
        id: HoldId,
        by: Duration,
    ) -> Result<(Time, Receipt), ReservationError> {
        let outcome = self.request_in(conn, Op::Extend { hold: id, by: Span::from(by) }).await?;
        Ok((new_expiry(&outcome.answer)?, Receipt::from(outcome)))
    }

    /// Extends a reservation in the caller's own SQLite transaction.
    pub fn extend_within(
        &self,
        tx: &mut Transaction<'_, '_>,
        id: HoldId,
        by: Duration,
    ) -> Result<Time, ReservationError> {
        new_expiry(&self.request_within(tx, Op::Extend { hold: id, by: Span::from(by) })?.answer)
    }

    /// Records at most `limit` expired reservations and other holds as expired; see [`Bursar::sweep`].
    pub async fn run_sweep_once(&self, limit: usize) -> Result<Swept, ReservationError> {
        Ok(self.bursar.sweep(limit).await?)
    }

    /// Returns the scope of a resource: `seat:show-42/2026-11-15`. Separators within the kind and the key are
    /// percent-encoded (`/` in a key becomes `%2F`), so that two resources never share a scope.
    pub fn scope(&self, key: &R::Key, window: &R::Window) -> Result<Scope, ReservationError> {
        let kind = R::KIND.replace('%', "%25").replace(':', "%3A");
        let key = key.to_string().replace('%', "%25").replace('/', "%2F");
        Ok(Scope::new(format!("{kind}:{key}/{window}")).map_err(Error::from)?)
    }

    fn because(&self, reason: impl Into<String>) -> ReservationKernel<R> {
        ReservationKernel { bursar: self.bursar.because(reason), resource: PhantomData }
    }

    async fn request_in(&self, conn: &mut PgConnection, op: Op) -> Result<Outcome, ReservationError> {
        let request = Request::from(op).in_context(self.bursar.context.clone());
        Ok(self.bursar.request_in(conn, &request).await?)
    }

    fn request_within(&self, tx: &mut Transaction<'_, '_>, op: Op) -> Result<Outcome, ReservationError> {
        Ok(tx.request(&Request::from(op).in_context(self.bursar.context.clone()))?)
    }

    fn command(&self, scope: Scope, amount: i64, capacity: i64, ttl: Duration) -> CommandBuilder {
        let charge = Charge { cover: Some(R::COVER), ..Charge::new(scope, amount) };
        let charge = charge.within([Limit::new(capacity, Window::Lifetime)]);
        self.bursar.command().charge_raw(charge).hold_for(ttl)
    }
}

fn commit_op(id: HoldId) -> Op {
    Op::Commit { hold: id, actual: Actual::Held }
}

fn new_expiry(answer: &Answer) -> Result<Time, ReservationError> {
    match answer {
        Answer::Extended { expires_at, .. } => Ok(*expires_at),
        other => Err(unexpected(other).into()),
    }
}

fn reservation(receipt: Receipt) -> Result<Reservation, ReservationError> {
    let placed = receipt.done.hold.clone().ok_or_else(|| Error::Internal("a reservation placed no hold".into()))?;
    let left = placed.charges.iter().flat_map(|charge| &charge.balances).map(|left| left.remaining).min();
    Ok(Reservation { id: placed.id, expires_at: placed.expires_at, remaining: left.unwrap_or(0), receipt })
}
