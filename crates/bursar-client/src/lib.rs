//! A client for the HTTP API of a Bursar server, and workers for its jobs.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use bursar_client::{ChargeBody, Client, CommandBody, JobBody, Payload, SettleWord};
//!
//! let client = Client::new("http://127.0.0.1:7440")?.token(std::env::var("BURSAR_TOKEN")?);
//! let command = CommandBody {
//!     charges: vec![ChargeBody::new("room:sales".try_into()?, 50_000)],
//!     settle: SettleWord::Job,
//!     jobs: vec![JobBody::new("media".try_into()?, "video.generate".try_into()?, Payload::new(r#"{"prompt":"a harbour"}"#)?)],
//!     ..CommandBody::default()
//! };
//! let done = client.key("order-7".try_into()?).commands().submit(&command).await?;
//! println!("{}", done.jobs[0].id);
//! # Ok(()) }
//! ```
//!
//! Every write has an idempotency key. The client generates one unless the caller sets it, and uses the same key for all retries, so that
//! a lost or repeated request has one effect. The client retries transient failures with exponential backoff and jitter until the
//! timeout of the call ([`Client::within`]); it waits at least as long as `Retry-After` says.
//!
//! With the feature `signing`, [`Client::signed`] signs every request with the key of an agent, and [`Signer`] signs requests to any other
//! service that verifies signatures (RFC 9421).
//!
//! [`Client::worker`] makes a worker, with the same interface as a worker of the library.

mod answered;
mod api;
mod call;
mod client;
mod error;
mod events;
#[cfg(test)]
mod fuzz;
mod http;
mod path;
mod random;
mod remote_blobs;
mod remote_source;
#[cfg(feature = "signing")]
mod signing;
mod sse;
mod transport;

pub use bursar_core::blob::Sha256Digest;
pub use bursar_core::budget::{Budget, HoldPolicy, Limit};
pub use bursar_core::credential::{BlobCapabilities, Capabilities, Pattern};
pub use bursar_core::hold::HoldState;
pub use bursar_core::id::{BlobId, CommandId, GrantId, HoldId, JobId, KeyId, WorkerId};
pub use bursar_core::job::{JobState, Order, QueueConfig, ScheduleSpec, Usage};
pub use bursar_core::name::{
    EventName, FlowKey, IdempotencyKey, JobKind, Namespace, Purpose, Queue, Referrer, ScheduleName, Scope, Subject,
    Tag, Tenant, WorkerName,
};
pub use bursar_core::payload::Payload;
pub use bursar_core::refusal::Invalid;
pub use bursar_core::window::{Window, Zone};
#[cfg(feature = "signing")]
pub use bursar_signatures::{BadKey, PublicKey, Signer, SigningError, new_seed};
pub use bursar_wire as wire;
pub use bursar_wire::budget::BudgetBody;
pub use bursar_wire::command::{ChargeBody, CommandBody, SettleWord};
pub use bursar_wire::hold::{CommitBody, HoldBody, OnExpiryBody};
pub use bursar_wire::job::JobBody;
pub use bursar_wire::problem::{Kind, Problem, ViolationAnswer};
pub use bursar_worker::{
    BlobReader, HandlerError, JobBlobs, JobContext, JobFailure, LeasedJob, Progress, RunningWorker, SourceError, Stop,
    StoredBlob, Upload, Worker, WorkerReport,
};

pub use crate::answered::Answered;
pub use crate::api::{
    BlobQuery, Blobs, Budgets, Commands, Credentials, Dead, Download, FiguresPeriod, Grants, Holds, JobQuery, Jobs,
    Journal, JournalQuery, Meter, Namespaces, Queues, ReadyAnswer, Schedules, Tenants, Work,
};
pub use crate::client::Client;
pub use crate::error::Error;
pub use crate::events::{Events, Told};
pub use crate::http::Http;
#[cfg(feature = "signing")]
pub use crate::signing::Signing;
pub use crate::transport::{Body, Bytes, Request, Response, Transport, TransportError};
