//! Moving a database to the other engine: what is kept, what is refused, writers during the move, and kills at every step.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod followed;
mod kept;
mod killed;
mod place;
mod refused;
