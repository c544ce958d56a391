//! The demo of `bursar dev`: a small company whose agents spend and whose workers run jobs until the process is stopped, and
//! a tour that explains the steps one by one. Both use the library as any program would.
//!
//! - `company`: the budgets, queues and the schedule, defined at the first start
//! - `agents`: programs that call a model and pay for each call
//! - `orders`: customers and systems that enqueue jobs
//! - `workers`: the handlers of these jobs
//! - `fleet`: starts all of them, and stops them without leaving leases or holds behind
//! - `lock`: lets one process serve a folder
//! - `pace`: the speed of the fleet, and its seeded variety
//! - `screen`: what `bursar dev` prints
//! - `tour`: `bursar dev --tour`

mod agents;
mod company;
mod dice;
mod fleet;
pub(crate) mod lock;
mod orders;
mod pace;
pub(crate) mod screen;
#[cfg(test)]
mod tests;
pub(crate) mod tour;
mod workers;

use bursar::{Bursar, Error};

pub(crate) use self::fleet::Fleet;
pub(crate) use self::pace::Speed;

/// The reason that the demo gives for what it defines. The first event of a demo database carries it.
const REASON: &str = "bursar dev";

/// Whether the demo may write to a database: one that is empty, or whose first event the demo has written. A database with
/// data of its user is neither.
pub(crate) async fn may_write_to(bursar: &Bursar) -> Result<bool, Error> {
    let (events, _) = bursar.journal().read(0, 1).await?;
    match events.first() {
        Some(first) => Ok(first.context.reason.as_deref() == Some(REASON)),
        None => Ok(bursar.health().await?.position == 0),
    }
}
