//! The bytes of blobs: how they are served.
//!
//! | module | contents |
//! | --- | --- |
//! | [`serve`] | which part of a blob answers a request, by its conditions and ranges |
//! | [`disposition`] | under which name and type a browser gets a blob |

pub mod disposition;
pub mod serve;
