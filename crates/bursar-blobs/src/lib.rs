//! The bytes of blobs: where they are stored, how they get there, how they are served and how they are removed.
//!
//! The records of blobs are Bursar's ([`bursar::BlobRecords`]): their states, references, charges and due times are decided by its rules.
//! This crate moves bytes, in an order that leaves no live record without bytes, whatever step fails. It is the only crate that knows
//! object storage.
//!
//! ```no_run
//! # async fn example(bytes: bytes::Bytes) -> Result<(), Box<dyn std::error::Error>> {
//! use bursar_blobs::{Backends, Blobs, NewBlob, body};
//!
//! let bursar = bursar::Bursar::open("sqlite://bursar.db").await?;
//! let blobs = Blobs::new(Backends::local("bursar-data/blobs")?);
//! let new = NewBlob::new(bursar::Namespace::new("media")?);
//! let stored = blobs.put(&bursar, new, body(bytes)).await?;
//! println!("stored {}", stored.blob.id);
//! # Ok(()) }
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`Backends`], [`Backend`] | a local directory or an S3-compatible service, and what it can do |
//! | [`Blobs`] | uploads, downloads, signed uploads, resumable uploads, collection, the scan for orphans, moves |
//! | [`JournalObjects`] | the archive of the journal in a backend |
//! | [`serve`] | which part of a blob answers a request, by its conditions and ranges |
//! | [`disposition`] | under which name and type a browser gets a blob |

mod backend;
mod blobs;
mod collect;
pub mod disposition;
mod error;
mod journal;
mod object;
mod orphans;
mod relocate;
mod resumable;
pub mod serve;
mod signed;
mod sniff;
mod unfinished;
mod worker;
mod writer;

pub use self::backend::{Abilities, Backend, Backends, BadBackend, S3Settings};
pub use self::blobs::{Blobs, BodyStream, NewBlob, Stored, body};
pub use self::collect::CollectReport;
pub use self::error::{BackendError, BlobError};
pub use self::journal::JournalObjects;
pub use self::orphans::{ORPHAN_AGE, Orphan, OrphanReport};
pub use self::relocate::MoveReport;
pub use self::resumable::Progress;
pub use self::signed::{SignedPart, SignedUpload, Target, UploadedPart};
