//! `/v1/blobs`: blobs. [`records`] has the routes that need no bytes, [`reach`] which blobs a worker may name.

mod bytes;
mod links;
pub(super) mod reach;
mod records;
mod resumable;
mod signed;
mod upkeep;

use bursar_blobs::Blobs;

use crate::call::Call;
use crate::route::Route;
use crate::wire::problem::{Kind, Problem};

pub(super) fn routes() -> Vec<Route> {
    let mut routes = records::routes();
    routes.extend(bytes::routes());
    routes.extend(signed::routes());
    routes.extend(links::routes());
    routes.extend(resumable::routes());
    routes.extend(upkeep::routes());
    routes
}

/// Returns the storage for blobs.
fn storage(call: &Call) -> Result<&Blobs, Problem> {
    call.app.blobs.as_ref().ok_or_else(|| {
        Problem::new(Kind::StorageUnavailable, "this server has no storage for blobs")
            .with_hint("set `blobs.directory` or `blobs.s3_bucket` of the server")
    })
}
