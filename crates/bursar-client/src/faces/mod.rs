//! What can be asked for, one file a noun. Every face borrows its client, with the key, the tenant and the patience that it has.

mod budgets;
mod commands;
mod credentials;
mod dead;
mod grants;
mod holds;
mod jobs;
mod journal;
mod meter;
mod queues;
mod schedules;
mod work;

pub use self::budgets::Budgets;
pub use self::commands::Commands;
pub use self::credentials::Credentials;
pub use self::dead::Dead;
pub use self::grants::Grants;
pub use self::holds::Holds;
pub use self::jobs::{JobQuery, Jobs};
pub use self::journal::{Journal, JournalQuery};
pub use self::meter::Meter;
pub use self::queues::Queues;
pub use self::schedules::Schedules;
pub use self::work::Work;

use bursar_wire::budget::ReasonBody;

/// Why, for the journal.
fn because(reason: Option<&str>) -> ReasonBody {
    ReasonBody { reason: reason.map(str::to_owned) }
}
