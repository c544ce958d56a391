//! Capacity reservations: seats, rooms, slots. A resource says how much there is; the kernel keeps who holds it.

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

/// The engine's or the application's own error.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// Something of which there is a limited number: seats of a show, rooms of a night.
///
/// `capacity` is read after the scope is locked, in the same transaction as the hold. Implement it for the engine in
/// use.
pub trait Resource: Send + Sync + 'static {
    /// Which one: a show, a hotel.
    type Key: Display + Send + Sync;
    /// For when: a date, a session; `&'static str` or `String` where there is no such thing.
    type Window: Display + Send + Sync;
    /// What kind of thing, as the scope's name begins: `seat`.
    const KIND: &'static str;
    /// What to do with a commit that is late or above the hold. Somebody else may sit there by now.
    const COVER: Cover = Cover::Refuse;

    /// How much there is, on SQLite.
    fn capacity_sqlite(
        _: &rusqlite::Connection,
        _: &Self::Key,
        _: &Self::Window,
    ) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{} does not say its capacity on SQLite: implement `capacity_sqlite`", Self::KIND).into())
    }

    /// How much there is, on PostgreSQL.
    fn capacity_postgres(
        _: &mut PgConnection,
        _: &Self::Key,
        _: &Self::Window,
    ) -> impl Future<Output = Result<i64, Box<dyn std::error::Error + Send + Sync>>> + Send {
        async {
            Err(format!("{} does not say its capacity on PostgreSQL: implement `capacity_postgres`", Self::KIND).into())
        }
    }
}

/// Reservations of one kind of resource.
pub struct ReservationKernel<R> {
    bursar: Bursar,
    resource: PhantomData<fn() -> R>,
}

/// A reservation that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// Its id.
    pub id: HoldId,
    /// When it expires unless it is committed.
    pub expires_at: Time,
    /// What is left of the capacity.
    pub remaining: i64,
    /// To be announced after the caller's own transaction was committed.
    pub receipt: Receipt,
}

/// Why a reservation was not made or settled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReservationError {
    /// There is not enough left.
    #[error("reservation: {requested} requested, {available} of {capacity} available")]
    Insufficient {
        /// What was asked for.
        requested: i64,
        /// What is left.
        available: i64,
        /// What there is.
        capacity: i64,
    },
    /// It is in another state.
    #[error("reservation: {id} is {actual}, not {expected}")]
    ConflictingState {
        /// Which one.
        id: HoldId,
        /// The state it should be in.
        expected: HoldState,
        /// The state it is in.
        actual: HoldState,
    },
    /// There is none.
    #[error("reservation: there is no {id}")]
    NotFound {
        /// The id asked for.
        id: HoldId,
    },
    /// The capacity could not be read.
    #[error("reservation: the capacity could not be read: {0}")]
    Capacity(#[source] Source),
    /// Anything else.
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
    /// Reservations of a resource.
    pub fn reservations<R: Resource>(&self) -> ReservationKernel<R> {
        ReservationKernel { bursar: self.clone(), resource: PhantomData }
    }
}

impl<R: Resource> ReservationKernel<R> {
    /// Sets `amount` of the capacity aside for so long.
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
                // Whoever waits here for a scope has a connection that a lane might need.
                let _turn = self.bursar.inner.reservation_permit().await?;
                let mut tx = store.begin_own().await.map_err(Error::from)?;
                let reservation = self.hold_in(&mut tx, key, window, amount, ttl).await?;
                store.finish(tx).await.map_err(Error::from)?;
                self.bursar.announce([&reservation.receipt]);
                Ok(reservation)
            }
            Backend::Other => Err(Error::from(no_transactions()).into()),
        }
    }

    /// The same within the caller's own PostgreSQL transaction.
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
            let hint = "this Bursar keeps its tables in SQLite: use `hold_within`";
            return Err(Error::from(StoreError::WrongTransaction(hint.into())).into());
        };
        store.lock_scope(conn, &(self.bursar.context.tenant.clone(), scope.clone())).await.map_err(Error::from)?;
        let capacity = R::capacity_postgres(conn, key, window).await.map_err(ReservationError::Capacity)?;
        reserved(self.command(scope, amount, capacity, ttl).submit_in(conn).await?)
    }

    /// The same within the caller's own SQLite transaction, which has locked everything.
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
        reserved(tx.submit(self.command(scope, amount, capacity, ttl))?)
    }

    /// Makes it final.
    pub async fn commit(&self, id: HoldId) -> Result<(), ReservationError> {
        Ok(self.bursar.ledger().commit(id, Actual::Held).await.map(drop)?)
    }

    /// The same within the caller's own PostgreSQL transaction; the receipt is to be announced after it.
    pub async fn commit_in(&self, conn: &mut PgConnection, id: HoldId) -> Result<Receipt, ReservationError> {
        Ok(Receipt::from(self.ask_in(conn, committing(id)).await?))
    }

    /// The same within the caller's own SQLite transaction.
    pub fn commit_within(&self, tx: &mut Transaction<'_, '_>, id: HoldId) -> Result<(), ReservationError> {
        self.ask_within(tx, committing(id)).map(drop)
    }

    /// Gives it up.
    pub async fn release(&self, id: HoldId, reason: impl Into<String>) -> Result<(), ReservationError> {
        Ok(self.bursar.ledger().release(id, reason).await.map(drop)?)
    }

    /// The same within the caller's own PostgreSQL transaction; the receipt is to be announced after it.
    pub async fn release_in(
        &self,
        conn: &mut PgConnection,
        id: HoldId,
        reason: impl Into<String>,
    ) -> Result<Receipt, ReservationError> {
        Ok(Receipt::from(self.because(reason).ask_in(conn, Op::Release { hold: id }).await?))
    }

    /// The same within the caller's own SQLite transaction.
    pub fn release_within(
        &self,
        tx: &mut Transaction<'_, '_>,
        id: HoldId,
        reason: impl Into<String>,
    ) -> Result<(), ReservationError> {
        self.because(reason).ask_within(tx, Op::Release { hold: id }).map(drop)
    }

    /// Keeps it longer; returns when it expires.
    pub async fn extend(&self, id: HoldId, by: Duration) -> Result<Time, ReservationError> {
        Ok(self.bursar.ledger().extend(id, by).await?)
    }

    /// The same within the caller's own PostgreSQL transaction; the receipt is to be announced after it.
    pub async fn extend_in(
        &self,
        conn: &mut PgConnection,
        id: HoldId,
        by: Duration,
    ) -> Result<(Time, Receipt), ReservationError> {
        let outcome = self.ask_in(conn, Op::Extend { hold: id, by: Span::from(by) }).await?;
        Ok((extended(&outcome.answer)?, Receipt::from(outcome)))
    }

    /// The same within the caller's own SQLite transaction.
    pub fn extend_within(
        &self,
        tx: &mut Transaction<'_, '_>,
        id: HoldId,
        by: Duration,
    ) -> Result<Time, ReservationError> {
        extended(&self.ask_within(tx, Op::Extend { hold: id, by: Span::from(by) })?.answer)
    }

    /// Writes down which reservations, and other holds, have expired.
    pub async fn run_sweep_once(&self, most: usize) -> Result<Swept, ReservationError> {
        Ok(self.bursar.sweep(most).await?)
    }

    /// The scope of a resource: `seat:show-42/2026-11-15`. Signs that divide it are escaped where they are part of a
    /// name (`/` in a key is `%2F`), so that two resources never share a scope.
    pub fn scope(&self, key: &R::Key, window: &R::Window) -> Result<Scope, ReservationError> {
        let kind = R::KIND.replace('%', "%25").replace(':', "%3A");
        let key = key.to_string().replace('%', "%25").replace('/', "%2F");
        Ok(Scope::new(format!("{kind}:{key}/{window}")).map_err(Error::from)?)
    }

    fn because(&self, reason: impl Into<String>) -> ReservationKernel<R> {
        ReservationKernel { bursar: self.bursar.because(reason), resource: PhantomData }
    }

    async fn ask_in(&self, conn: &mut PgConnection, op: Op) -> Result<Outcome, ReservationError> {
        let request = Request::from(op).in_context(self.bursar.context.clone());
        Ok(self.bursar.request_in(conn, &request).await?)
    }

    fn ask_within(&self, tx: &mut Transaction<'_, '_>, op: Op) -> Result<Outcome, ReservationError> {
        Ok(tx.request(&Request::from(op).in_context(self.bursar.context.clone()))?)
    }

    fn command(&self, scope: Scope, amount: i64, capacity: i64, ttl: Duration) -> CommandBuilder {
        let charge = Charge { cover: Some(R::COVER), ..Charge::new(scope, amount) };
        let charge = charge.within([Limit::new(capacity, Window::Lifetime)]);
        self.bursar.command().charge_raw(charge).hold_for(ttl)
    }
}

fn committing(id: HoldId) -> Op {
    Op::Commit { hold: id, actual: Actual::Held }
}

fn extended(answer: &Answer) -> Result<Time, ReservationError> {
    match answer {
        Answer::Extended { expires_at, .. } => Ok(*expires_at),
        other => Err(unexpected(other).into()),
    }
}

fn reserved(receipt: Receipt) -> Result<Reservation, ReservationError> {
    let placed = receipt.done.hold.clone().ok_or_else(|| Error::Internal("a reservation placed no hold".into()))?;
    let left = placed.charges.iter().flat_map(|charge| &charge.balances).map(|left| left.remaining).min();
    Ok(Reservation { id: placed.id, expires_at: placed.expires_at, remaining: left.unwrap_or(0), receipt })
}
