//! Reservations of limited capacity: seats, rooms, time slots. The application says how much there is; Bursar holds and
//! counts the reserved part.

mod error;
mod event;
mod handle;
mod kernel;
mod resource;

pub use self::error::{NotEnded, ReservationError, ReservationListenError};
pub use self::event::{ReservationChange, ReservationEvent, ReservationEvents};
pub use self::handle::{ReleaseReason, Reservation, UncommittedReservation};
pub use self::kernel::ReservationKernel;
pub use self::resource::{NamePart, Resource};

/// The error of the application's functions that read the capacity.
type Source = Box<dyn std::error::Error + Send + Sync>;
