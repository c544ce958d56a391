//! Tools that show Bursar to be right, or find out that it is not. Not shipped.

pub mod sim;
