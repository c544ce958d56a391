//! Workers for jobs: the caller writes handlers, this crate does the rest.
//!
//! A [`Worker`] leases jobs, runs their handlers, keeps the leases alive with heartbeats, reports results, retries its own calls and drains
//! on shutdown. It gets its jobs from a [`Source`], so that the same worker runs on the library in the same process and on a server over
//! HTTP. This crate knows no database and no network protocol.

mod blobs;
mod completion_rate;
mod context;
mod handler;
mod job_blobs;
mod leases;
mod reports;
mod run_loop;
mod service;
mod source;
mod worker;

pub use crate::blobs::{BlobReader, BlobStore, StoredBlob, Upload, UploadBytes};
pub use crate::context::{JobContext, Stop};
pub use crate::handler::HandlerError;
pub use crate::job_blobs::JobBlobs;
pub use crate::reports::WorkerReport;
pub use crate::service::{JobFailure, JobService};
pub use crate::source::{LeasedJob, NotTaken, Progress, Source, SourceError};
pub use crate::worker::{RunningWorker, Worker};
