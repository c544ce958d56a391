//! The server as its callers see it, on both engines.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod apart;
mod bounded;
mod client;
mod document;
mod events;
mod failing;
mod home;
mod hostile;
mod matrix;
mod metered;
mod money;
mod people;
mod repeat;
mod rights;
mod shape;
mod small;
mod tenants;
mod watch;
mod work;
