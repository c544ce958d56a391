//! Workers: you write the handler, the rest is here. It leases jobs, keeps their leases alive, reports what came of them, tries
//! its own calls again, and drains.
//!
//! Where jobs come from is behind [`Source`]: the same worker runs beside the library and over a network. It knows no database.

mod context;
mod crew;
mod handler;
mod leases;
mod pace;
mod reports;
mod service;
mod source;
mod worker;

pub use crate::context::{JobContext, Stop};
pub use crate::handler::HandlerError;
pub use crate::reports::WorkerReport;
pub use crate::service::{JobFailure, JobService};
pub use crate::source::{LeasedJob, NotTaken, Progress, Source, SourceError};
pub use crate::worker::{RunningWorker, Worker};
