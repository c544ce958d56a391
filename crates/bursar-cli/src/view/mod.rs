//! How answers look to people, for commands that share a view.

pub(crate) mod balances;
pub(crate) mod charges;
pub(crate) mod events;
pub(crate) mod jobs;
pub(crate) mod report;
