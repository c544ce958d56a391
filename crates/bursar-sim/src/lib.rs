//! How Bursar is shown to keep its word when things go wrong. Not shipped.

pub mod crash;
