//! The calls of the API, one file per resource. Each type borrows a client with its options.

mod blobs;
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
mod tenants;
mod worker_calls;

pub use self::blobs::{BlobQuery, Blobs, Download, Namespaces};
pub use self::budgets::Budgets;
pub use self::commands::{Commands, ReadyAnswer};
pub use self::credentials::Credentials;
pub use self::dead::Dead;
pub use self::grants::Grants;
pub use self::holds::Holds;
pub use self::jobs::{JobQuery, Jobs};
pub use self::journal::{Journal, JournalQuery};
pub use self::meter::Meter;
pub use self::queues::{FiguresPeriod, Queues};
pub use self::schedules::Schedules;
pub use self::tenants::Tenants;
pub use self::worker_calls::Work;

use bursar_wire::budget::ReasonBody;

fn reason_body(reason: Option<&str>) -> ReasonBody {
    ReasonBody { reason: reason.map(str::to_owned) }
}
