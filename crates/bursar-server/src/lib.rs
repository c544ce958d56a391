//! Everything the library does, over HTTP.
//!
//! Every route is declared once, in `routes/`: method, path, the action that must be allowed, what it takes and what it answers.
//! The router, the OpenAPI document and the test of who may do what are made from that list.
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

mod app;
mod body;
mod call;
mod connection;
pub mod convert;
mod entry;
mod events;
#[cfg(test)]
mod fuzz;
mod in_flight;
mod leases;
mod limits;
mod local;
mod metering;
mod metrics;
mod openapi;
mod page;
mod principal;
mod reference;
mod reply;
mod route;
mod routes;
mod serve;
mod trace;

/// The shapes of the wire, which clients share.
pub use bursar_wire as wire;

pub use crate::limits::Limits;
pub use crate::local::Local;
pub use crate::metrics::markdown as metrics_table;
pub use crate::openapi::document;
pub use crate::principal::authenticate::OPERATOR_BYTES_MIN;
pub use crate::principal::jwt::{JwtError, JwtKey, JwtRules};
pub use crate::principal::proxies::{BadNetwork, Network};
pub use crate::principal::table::{Action, Allowed, Role, markdown as roles_table};
pub use crate::reference::reference;
pub use crate::routes::{Declared, declared};
pub use crate::serve::{Server, Settings, StartError};
