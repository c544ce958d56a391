//! Placing, settling and extending reservations.

use std::sync::Arc;
use std::time::Duration;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::budget::Limit;
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::request::{Actual, Charge, Op, Request};
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::StoreError;
use sqlx::PgConnection;

use super::resource::{Room, names_of, scope_of};
use super::{ReleaseReason, Reservation, ReservationError, ReservationEvents, Resource, UncommittedReservation};
use crate::api::command::{CommandBuilder, Receipt};
use crate::api::held::unexpected;
use crate::api::instance::{Backend, Bursar, no_transactions};
use crate::api::transaction::Transaction;
use crate::error::Error;
use crate::maintenance::Swept;

/// Reservations of one kind of resource. From [`Bursar::reservations`].
pub struct ReservationKernel<R> {
    bursar: Bursar,
    resource: Arc<R>,
}

impl<R> Clone for ReservationKernel<R> {
    fn clone(&self) -> ReservationKernel<R> {
        ReservationKernel { bursar: self.bursar.clone(), resource: self.resource.clone() }
    }
}

impl Bursar {
    /// Returns the reservations of a kind of resource.
    pub fn reservations<R: Resource>(&self, resource: R) -> ReservationKernel<R> {
        ReservationKernel { bursar: self.clone(), resource: Arc::new(resource) }
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
    ) -> Result<Reservation, ReservationError> {
        match &self.bursar.inner.backend {
            Backend::Sqlite(_) => {
                let (this, key, window) = (self.clone(), key.clone(), window.clone());
                let placed = self.bursar.transaction(move |tx| this.hold_within(tx, &key, &window, amount, ttl));
                Ok(placed.await?.committed())
            }
            Backend::Postgres(store) => {
                // Waiting for a scope's lock occupies a connection, and the committers need some too.
                let _permit = self.bursar.inner.reservation_permit().await?;
                let mut tx = store.begin_own().await.map_err(Error::from)?;
                let placed = self.hold_in(&mut tx, key, window, amount, ttl).await?;
                store.finish(tx).await.map_err(Error::from)?;
                self.bursar.announce([placed.receipt()]);
                Ok(placed.committed())
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
    ) -> Result<UncommittedReservation, ReservationError> {
        let scope = self.scope(key, window)?;
        let Backend::Postgres(store) = &self.bursar.inner.backend else {
            let hint = "this Bursar uses SQLite: call `hold_within`";
            return Err(Error::from(StoreError::WrongTransaction(hint.into())).into());
        };
        store.lock_scope(conn, &(self.bursar.context.tenant.clone(), scope.clone())).await.map_err(Error::from)?;
        let room = Room::of_postgres(&*self.resource, conn, key, window).await.map_err(ReservationError::Capacity)?;
        let receipt = self.command(scope, amount, &room, ttl)?.submit_in(conn).await?;
        self.uncommitted(receipt, amount, &room)
    }

    /// Reserves in the caller's own SQLite transaction. It needs no further lock, because SQLite has one writer.
    pub fn hold_within(
        &self,
        tx: &mut Transaction<'_, '_>,
        key: &R::Key,
        window: &R::Window,
        amount: i64,
        ttl: Duration,
    ) -> Result<UncommittedReservation, ReservationError> {
        let room =
            Room::of_sqlite(&*self.resource, tx.connection(), key, window).map_err(ReservationError::Capacity)?;
        let receipt = tx.submit(self.command(self.scope(key, window)?, amount, &room, ttl)?)?;
        self.uncommitted(receipt, amount, &room)
    }

    /// Commits a reservation by its id, such as one whose handle was [detached](Reservation::detach).
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

    /// Releases a reservation by its id, which frees its capacity. The reason is recorded in the journal.
    pub async fn release(&self, id: HoldId, reason: impl Into<ReleaseReason>) -> Result<(), ReservationError> {
        Ok(self.bursar.ledger().release(id, reason.into().to_string()).await.map(drop)?)
    }

    /// Releases a reservation in the caller's own PostgreSQL transaction; see [`ReservationKernel::hold_in`].
    pub async fn release_in(
        &self,
        conn: &mut PgConnection,
        id: HoldId,
        reason: impl Into<ReleaseReason>,
    ) -> Result<Receipt, ReservationError> {
        Ok(Receipt::from(self.because(reason).request_in(conn, Op::Release { hold: id }).await?))
    }

    /// Releases a reservation in the caller's own SQLite transaction.
    pub fn release_within(
        &self,
        tx: &mut Transaction<'_, '_>,
        id: HoldId,
        reason: impl Into<ReleaseReason>,
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

    /// Returns the scope of a resource: `seat:hamlet/2026-11-15`. Separators within the kind and the key are
    /// percent-encoded (`/` in a key becomes `%2F`), so that two resources never share a scope.
    pub fn scope(&self, key: &R::Key, window: &R::Window) -> Result<Scope, ReservationError> {
        Ok(scope_of::<R>(key, window)?)
    }

    /// Reads the key and the window back from a scope; `None` if it belongs to another kind of resource.
    pub fn names(&self, scope: &Scope) -> Option<(R::Key, R::Window)> {
        names_of::<R>(scope)
    }

    /// Listens to the reservations of this kind and tenant that this process commits from now on.
    pub fn listen(&self) -> ReservationEvents<R> {
        ReservationEvents::new(self.bursar.clone())
    }

    fn because(&self, reason: impl Into<ReleaseReason>) -> ReservationKernel<R> {
        ReservationKernel { bursar: self.bursar.because(reason.into().to_string()), ..self.clone() }
    }

    async fn request_in(&self, conn: &mut PgConnection, op: Op) -> Result<Outcome, ReservationError> {
        let request = Request::from(op).in_context(self.bursar.context.clone());
        Ok(self.bursar.request_in(conn, &request).await?)
    }

    fn request_within(&self, tx: &mut Transaction<'_, '_>, op: Op) -> Result<Outcome, ReservationError> {
        Ok(tx.request(&Request::from(op).in_context(self.bursar.context.clone()))?)
    }

    fn command(
        &self,
        scope: Scope,
        amount: i64,
        room: &Room,
        ttl: Duration,
    ) -> Result<CommandBuilder, ReservationError> {
        let charge = Charge { cover: Some(R::COVER), ..Charge::new(scope, amount) };
        let limit = match room.taken {
            None => room.capacity,
            // The application counts: the balance of the scope does not matter.
            Some(taken) => {
                let (capacity, available) = (room.capacity, room.capacity.saturating_sub(taken).max(0));
                if amount > available {
                    return Err(ReservationError::Insufficient { requested: amount, available, capacity });
                }
                i64::MAX
            }
        };
        let charge = charge.within([Limit::new(limit, Window::Lifetime)]);
        Ok(self.bursar.command().charge_raw(charge).hold_for(ttl))
    }

    fn uncommitted(
        &self,
        receipt: Receipt,
        amount: i64,
        room: &Room,
    ) -> Result<UncommittedReservation, ReservationError> {
        let placed = receipt.done.hold.clone().ok_or_else(|| Error::Internal("a reservation placed no hold".into()))?;
        let remaining = match room.taken {
            None => placed.charges.iter().flat_map(|charge| &charge.balances).map(|left| left.remaining).min(),
            Some(taken) => Some(room.capacity.saturating_sub(taken).saturating_sub(amount)),
        };
        let (bursar, remaining) = (self.bursar.clone(), remaining.unwrap_or(0));
        Ok(UncommittedReservation { bursar, id: placed.id, expires_at: placed.expires_at, remaining, receipt })
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
