//! Erasing payloads. The event comes first: from then on the row of the job or grant has no payload, also after a rebuild. Then the bytes that
//! were recorded before are deleted and overwritten. A process may end between the two, so erasing again does the second step again.

use bursar_core::event::Stream;
use bursar_core::id::BatchId;
use bursar_core::name::Tenant;
use bursar_core::refusal::Invalid;
use bursar_core::request::Request;
use bursar_store::{Store, StoreError};

/// The rows of the journal that one transaction overwrites.
const ROWS: usize = 100;

/// Refuses a request that erases, in a transaction of the caller: whether that commits is not known when the bytes would be overwritten.
pub(crate) fn refuse(request: &Request) -> Result<(), Invalid> {
    if request.op.erases().is_empty() {
        return Ok(());
    }
    Err(Invalid::new("erase", "needs a transaction of its own: call `jobs().erase` or `grants().erase`"))
}

/// Deletes and overwrites what is recorded of payloads that were erased.
pub(crate) async fn overwrite(store: &dyn Store, tenant: &Tenant, streams: &[Stream]) -> Result<(), StoreError> {
    for stream in streams {
        let Some(last) = last_of_erased(store, tenant, stream).await? else { continue };
        let rows = rows_of(store, stream, last).await?;
        for rows in rows.chunks(ROWS) {
            store.erase_payloads(stream, rows).await?;
        }
    }
    Ok(())
}

/// Returns the last transaction of a job or a grant, if its payload was erased.
async fn last_of_erased(store: &dyn Store, tenant: &Tenant, stream: &Stream) -> Result<Option<BatchId>, StoreError> {
    let (payload, last) = match stream {
        Stream::Job(id) => store.job(tenant, *id).await?.map(|job| (job.payload, job.last)),
        Stream::Grant(id) => store.grant(tenant, *id).await?.map(|grant| (grant.payload, grant.last)),
        _ => None,
    }
    .unzip();
    Ok(last.flatten().filter(|_| payload.is_some_and(|payload| payload.is_erased())))
}

/// Returns the rows of a stream that are in the table, the last one first. Archived rows have no payloads.
async fn rows_of(store: &dyn Store, stream: &Stream, last: BatchId) -> Result<Vec<BatchId>, StoreError> {
    let (mut rows, mut next) = (Vec::new(), Some(last));
    while let Some(id) = next
        && let Some(row) = store.batch(id).await?
    {
        rows.push(id);
        next = row.batch.prev.get(stream);
    }
    Ok(rows)
}
