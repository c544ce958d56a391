//! Tests of the server over HTTP, most of them on both engines.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod authentication;
mod authorization;
mod blob_bytes;
mod blobs;
mod checks;
mod client;
mod dashboard;
mod database_failures;
mod emitted;
mod erasure;
mod events;
mod guidance;
mod hostile;
mod idempotency;
mod jobs;
mod key_sets;
mod ledger;
mod less_common;
mod memory_bounds;
mod notation;
mod observability;
mod openapi;
mod otlp;
mod past;
mod permissions;
mod quotas;
// This file uses `s3s` and `s3s_fs`.
#[path = "../../../bursar-blobs/tests/backends/s3.rs"]
mod s3;
mod schema_check;
mod seen;
mod signed;
mod sockets;
mod tenant_isolation;
mod tenants;
mod test_server;
