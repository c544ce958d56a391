//! Events of reservations, with the key and the window of the resource.

use std::fmt;
use std::marker::PhantomData;

use bursar_core::context::Context;
use bursar_core::event::{Charged, Event};
use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_core::time::Time;

use super::resource::names_of;
use super::{ReleaseReason, ReservationListenError, Resource};
use crate::api::instance::Bursar;
use crate::wakeup::{Notice, Notices};

/// A change of a reservation that this process has committed.
pub struct ReservationEvent<R: Resource> {
    /// The id of the reservation.
    pub id: HoldId,
    /// The resource.
    pub key: R::Key,
    /// The date or session.
    pub window: R::Window,
    /// The units that are reserved; of a commit, those that were posted.
    pub quantity: i64,
    /// What happened.
    pub change: ReservationChange,
    /// The tenant, the actor and the reason of the request.
    pub context: Context,
}

impl<R: Resource> ReservationEvent<R> {
    /// Returns the kind of the resource.
    pub fn kind(&self) -> &'static str {
        R::KIND
    }
}

impl<R: Resource<Key: fmt::Debug, Window: fmt::Debug>> fmt::Debug for ReservationEvent<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReservationEvent { id, key, window, quantity, change, context } = self;
        f.debug_struct("ReservationEvent")
            .field("kind", &R::KIND)
            .field("id", id)
            .field("key", key)
            .field("window", window)
            .field("quantity", quantity)
            .field("change", change)
            .field("context", context)
            .finish()
    }
}

/// What happened to a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReservationChange {
    /// It was placed.
    Held {
        /// When it expires.
        expires_at: Time,
    },
    /// It was committed.
    Committed {
        /// Whether it had expired.
        late: bool,
    },
    /// It was released.
    Released {
        /// Why, if a reason was given.
        reason: Option<ReleaseReason>,
    },
    /// It expired.
    Expired {
        /// When it expired.
        at: Time,
    },
    /// It was extended.
    Extended {
        /// Its new expiry.
        expires_at: Time,
    },
}

/// The changes of reservations of one kind of resource, in the order of commits. From
/// [`ReservationKernel::listen`](super::ReservationKernel::listen). A listener that lags behind loses the oldest events. To miss nothing,
/// read the journal.
pub struct ReservationEvents<R> {
    bursar: Bursar,
    notices: Notices,
    resource: PhantomData<fn() -> R>,
}

/// A change before the key, the window and the quantity are known.
type Found<'a> = (HoldId, Names<'a>, ReservationChange);

/// Where an event names the scope of its reservation.
enum Names<'a> {
    Charges(&'a [Charged]),
    Scopes(&'a [Scope]),
}

impl<R: Resource> ReservationEvents<R> {
    pub(super) fn new(bursar: Bursar) -> ReservationEvents<R> {
        let notices = bursar.listen();
        ReservationEvents { bursar, notices, resource: PhantomData }
    }

    /// Waits for the next event. Returns `None` when Bursar was closed.
    pub async fn next(&mut self) -> Option<Result<ReservationEvent<R>, ReservationListenError>> {
        loop {
            let notice = match self.notices.next().await? {
                Ok(notice) => notice,
                Err(missed) => return Some(Err(ReservationListenError::Missed(missed))),
            };
            if notice.context().tenant == self.bursar.context.tenant
                && let Some(event) = self.read(&notice).await
            {
                return Some(event);
            }
        }
    }

    /// Reads the event of a reservation; `None` if it is another event.
    async fn read(&self, notice: &Notice) -> Option<Result<ReservationEvent<R>, ReservationListenError>> {
        let context = notice.context();
        let (id, names, change) = change(notice.event(), context)?;
        let ((key, window), quantity) = match names {
            Names::Charges(charges) => charges
                .iter()
                .find_map(|charge| Some((names_of::<R>(&charge.scope)?, charge.actual.unwrap_or(charge.amount))))?,
            // The event has no units, which the hold keeps.
            Names::Scopes(scopes) => {
                let (scope, names) = scopes.iter().find_map(|scope| Some((scope, names_of::<R>(scope)?)))?;
                let hold = match self.bursar.ledger().find(id).await {
                    Ok(hold) => hold?,
                    Err(error) => return Some(Err(ReservationListenError::Unreadable(error))),
                };
                (names, hold.charges.iter().find(|charge| charge.scope == *scope)?.amount)
            }
        };
        Some(Ok(ReservationEvent { id, key, window, quantity, change, context: context.clone() }))
    }
}

fn change<'a>(event: &'a Event, context: &Context) -> Option<Found<'a>> {
    Some(match event {
        Event::HoldPlaced { hold, charges, expires_at, .. } => {
            (*hold, Names::Charges(charges), ReservationChange::Held { expires_at: *expires_at })
        }
        Event::HoldCommitted { hold, charges, late, .. } => {
            (*hold, Names::Charges(charges), ReservationChange::Committed { late: *late })
        }
        Event::HoldReleased { hold, charges } => {
            let reason = context.reason.as_deref().map(ReleaseReason::from);
            (*hold, Names::Charges(charges), ReservationChange::Released { reason })
        }
        Event::HoldExpired { hold, at, scopes, .. } => {
            (*hold, Names::Scopes(scopes), ReservationChange::Expired { at: *at })
        }
        Event::HoldExtended { hold, expires_at, scopes, .. } => {
            (*hold, Names::Scopes(scopes), ReservationChange::Extended { expires_at: *expires_at })
        }
        _ => return None,
    })
}
