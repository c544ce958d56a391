//! `/v1/blobs`: blobs. [`records`] has the routes that need no bytes, [`reach`] which blobs a worker may name.

pub(super) mod reach;
mod records;

use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    records::routes()
}
