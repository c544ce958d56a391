//! Bursar enforces budgets for software that spends.
//!
//! A program **holds** budget or capacity, **redeems** a one-time grant and **starts durable work** in one database
//! transaction, and settles the hold with the real cost. It runs embedded on SQLite, and on PostgreSQL.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use bursar::{Bursar, Budget, Limit, Window};
//! use std::time::Duration;
//!
//! let bursar = Bursar::open("sqlite::memory:").await?;
//! let ledger = bursar.ledger();
//! ledger.define("agents", Budget::new([Limit::new(1_000_000, "month".parse()?)])).await?;
//!
//! let held = ledger.hold("agents", 50_000, Duration::from_secs(60)).await?;
//! // … call the model, learn what it cost …
//! let settled = held.commit(42_000).await?;
//! assert_eq!(settled.charges[0].balances[0].remaining, 958_000);
//! # bursar.close().await;
//! # Ok::<(), bursar::Error>(()) }).unwrap();
//! ```
//!
//! # Where things are
//!
//! - `api`: what callers use: [`Bursar`] and what it returns, one file for each noun.
//! - `engine`: collects requests into batches and commits them.
//! - `wakeup`: wakes waiting workers and notifies other processes when jobs become ready.
//! - `maintenance`: expired holds, expired leases, due schedules, old rows.
//! - `meter`: quotas as middleware.
//! - `observed`: refusals and workers that this process has seen, in memory.

mod api;
mod archive;
mod engine;
mod erasure;
mod error;
mod ids;
mod maintenance;
#[cfg(feature = "meter")]
pub mod meter;
mod observed;
mod wakeup;

pub use bursar_core::answer::{
    Answer, BlobAnswer, Credited, Enqueued, Finished, Leased, Outcome, Placed, Redeemed, Renewed, Settled, Submitted,
};
pub use bursar_core::blob::{Blob, BlobSpec, BlobState, NamespaceConfig, NamespaceState, Reference, Sha256Digest};
pub use bursar_core::bounds;
pub use bursar_core::budget::{Budget, Cover, HoldPolicy, Limit};
pub use bursar_core::context::{Actor, Context, Reporter};
pub use bursar_core::credential::{
    BlobCapabilities, Capabilities, CredentialClass, CredentialToken, Pattern, covered, is_credential,
};
pub use bursar_core::cron::Cron;
pub use bursar_core::decide::{Rules, TenantRetention};
pub use bursar_core::event::{Charged, Event, Left, Stream};
pub use bursar_core::grant::{Grant, GrantFault, GrantState};
pub use bursar_core::hold::{ClampedTtl, HeldCharge, Hold, HoldState, OnExpiry};
pub use bursar_core::id::{BlobId, CommandId, GrantId, HoldId, IdSource, JobId, KeyId, WorkerId};
pub use bursar_core::job::{
    Backoff, Emit, End, EndedAttempt, Finish, HeartbeatItem, Job, JobAct, JobError, JobSpec, JobState, LastReport,
    Lease, LeaseEnd, LeaseRequest, Missed as MissedTicks, Order, Overlap, QueueConfig, Rate, Retention, Retry,
    Schedule, ScheduleSpec, Usage,
};
pub use bursar_core::name::{
    Backend, EventName, FlowKey, IdempotencyKey, JobKind, LeaseOwner, Name, Namespace, Purpose, Queue, Referrer,
    ScheduleName, Scope, Subject, Tag, Tenant, WorkerName, given,
};
pub use bursar_core::notation::{self, Amount, Unit};
pub use bursar_core::page;
pub use bursar_core::payload::Payload;
pub use bursar_core::refusal::{Invalid, Refusal, RefusalReason, Violation};
pub use bursar_core::request::{
    Act, Actual, BlobOp, Charge, Command, Fingerprint, IfMatch, NamedReference, Op, Part, Redemption, Request, Settle,
};
pub use bursar_core::scope::Freeze;
pub use bursar_core::time::{Span, Time};
pub use bursar_core::trace::TraceParent;
pub use bursar_core::window::{CalendarUnit, Weekday, Window, Zone};
pub use bursar_store::{
    Clock, Copied, CopyOptions, CopyProgress, Cost, CostMark, DeadGroup, DeadGroupMark, Health, HeldMark, HeldSum,
    JobFilter, ManualClock, Moment, MoveProgress, MoveReport, MoveStep, MoveSummary, Overdue, PostgresOptions, Report,
    Segment, StoreError, SystemClock, TableSummary, UnitSums, migration_sql,
};
pub use bursar_worker::{
    BlobReader, BlobStore, HandlerError, JobBlobs, JobContext, JobFailure, JobService, LeasedJob, NotTaken, Progress,
    RunningWorker, Source, SourceError, Stop, StoredBlob, Upload, UploadBytes, Worker, WorkerReport,
};

/// The drivers whose connections appear in this crate's interface.
pub use {rusqlite, sqlx};

pub use crate::api::all_queues::{AllQueues, QueueLoad};
pub use crate::api::blob_records::BlobRecords;
pub use crate::api::command::{CommandBuilder, Receipt};
pub use crate::api::credentials::{Credentials, Issued};
pub use crate::api::grants::{Grants, Minted};
pub use crate::api::held::{Held, NotSettled};
pub use crate::api::instance::Bursar;
pub use crate::api::jobs::{Acted, Attempt, AttemptEnd, Failure, JobCount, Jobs, LostLease, commands_of};
pub use crate::api::journal::{HistoryMark, Journal, JournalEvent};
pub use crate::api::ledger::{BalanceView, BudgetView, Ledger};
pub use crate::api::options::Options;
pub use crate::api::past::Past;
pub use crate::api::queues::{QueueFigures, QueueSeries, Queues};
pub use crate::api::reservation::{
    NamePart, NotEnded, ReleaseReason, Reservation, ReservationChange, ReservationError, ReservationEvent,
    ReservationEvents, ReservationKernel, ReservationListenError, Resource, UncommittedReservation,
};
pub use crate::api::schedules::Schedules;
pub use crate::api::transaction::Transaction;
pub use crate::archive::{
    ArchiveCounts, ArchiveOptions, ArchivePlace, ArchiveStatus, Archived, DirectoryPlace, JournalProof, MemoryPlace,
};
pub use crate::engine::{Counters, Distribution, Histogram, Vitals};
pub use crate::error::Error;
pub use crate::maintenance::{Removed, Swept, Tended};
pub use crate::observed::{Incidents, RefusalCount, WorkerSeen};
pub use crate::wakeup::{Missed, Notice, Notices, ProgressNotices, Progressed};
