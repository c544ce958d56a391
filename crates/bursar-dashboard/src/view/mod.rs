//! The parts that pages are made of.

pub(crate) mod amount;
pub(crate) mod badge;
pub(crate) mod bar;
pub(crate) mod bytes;
pub(crate) mod chart;
pub(crate) mod form;
pub(crate) mod json;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod refusals;
pub(crate) mod time;
