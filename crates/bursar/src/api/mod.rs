//! The public API: [`Bursar`](instance::Bursar) and the types it returns, one file for each noun.

pub(crate) mod all_queues;
pub(crate) mod backup;
pub(crate) mod blob_records;
pub(crate) mod command;
pub(crate) mod credentials;
pub(crate) mod grants;
pub(crate) mod held;
pub(crate) mod instance;
pub(crate) mod jobs;
pub(crate) mod journal;
pub(crate) mod ledger;
pub(crate) mod moving;
pub(crate) mod options;
pub(crate) mod past;
pub(crate) mod queues;
pub(crate) mod reservation;
pub(crate) mod schedules;
pub(crate) mod transaction;
pub(crate) mod worker;
