//! Bursar over HTTP: every operation of the library as a JSON route, with authentication, limits, events and metrics.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use bursar_server::{Server, Settings};
//!
//! let bursar = bursar::Bursar::open("sqlite://bursar.db").await?;
//! let server = Server::bind(bursar, "127.0.0.1:7440".parse()?, Settings::default()).await?;
//! println!("listening on http://{}", server.address());
//! server.run(std::future::pending()).await;
//! # Ok(()) }
//! ```
//!
//! # What is where
//!
//! | module | contents |
//! | --- | --- |
//! | `routes/` | all routes, one file per resource: method, path, action, summary, handler |
//! | `route` | the type of a route declaration; `call` and `reply` are what a handler takes and returns |
//! | `serve`, `local` | the TCP server; the same routes without a network, for programs that open the database themselves |
//! | `router`, `pipeline` | routing, and the steps that every request goes through before and after its handler |
//! | `convert` | from engine types to the JSON shapes of responses |
//! | `parse` | strict parsing of JSON bodies and query strings |
//! | `principal/` | authentication (tokens, API keys, JWTs) and the table of roles and actions |
//! | `limits`, `in_flight`, `connection` | bounds on requests, bytes in memory and slow peers |
//! | `metering` | quotas on calls to this server |
//! | `collection` | deletes the bytes of blobs that nothing needs any more |
//! | `events` | server-sent events, read from the journal |
//! | `dashboard` | the pages of `bursar-dashboard`, beside the API |
//! | `activity` | spend by minute and notable events of the last hour, for dashboards |
//! | `openapi`, `reference` | the OpenAPI document and its Markdown rendering, both generated from the routes |
//! | `metrics`, `trace` | Prometheus metrics; request ids and trace contexts |
//! | `otlp/` | spans of requests and jobs, sent to a receiver of OpenTelemetry |
//!
//! The router, the OpenAPI document and the test of the permission table are all generated from the list of routes, so a route
//! cannot exist without an action and a description.

mod activity;
mod app;
mod call;
mod collection;
mod connection;
pub mod convert;
mod dashboard;
mod events;
#[cfg(test)]
mod fuzz;
mod in_flight;
mod lease_cache;
mod limits;
mod local;
mod metering;
mod metrics;
mod openapi;
mod otlp;
mod parse;
mod pipeline;
mod principal;
mod reference;
mod reply;
mod route;
mod router;
mod routes;
mod serve;
mod suggest;
mod trace;

/// The JSON shapes of requests and responses, which clients share.
pub use bursar_wire as wire;

pub use bursar_dashboard::LoginCodes;

pub use crate::limits::Limits;
pub use crate::local::Local;
pub use crate::metrics::markdown as metrics_table;
pub use crate::openapi::document;
pub use crate::otlp::{OtlpError, OtlpSettings};
pub use crate::principal::authenticate::OPERATOR_BYTES_MIN;
pub use crate::principal::jwks::{JwksError, JwksSettings, JwksSource};
pub use crate::principal::jwt::{JwtError, JwtKey, JwtRules};
pub use crate::principal::permissions::{Action, Allowed, Role, markdown as roles_table};
pub use crate::principal::proxies::{BadNetwork, Network};
pub use crate::reference::reference;
pub use crate::routes::{RouteInfo, route_list};
pub use crate::serve::{Server, Settings, StartError};
