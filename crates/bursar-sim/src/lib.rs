//! How Bursar is shown to be right, or found not to be. Not shipped.

pub mod crash;
pub mod sim;
