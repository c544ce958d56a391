//! Erasing payloads. The event comes first: from then on the row of the job or grant has no payload, also after a rebuild. Then the bytes that
//! were recorded before are deleted and overwritten. A process may end between the two, so erasing again does the second step again.

use std::collections::{BTreeSet, HashMap};

use bursar_core::answer::Answer;
use bursar_core::event::{Links, Stream};
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

/// The rows of the journal that have to be overwritten after a request that erases.
pub(crate) struct Erasure<'a> {
    store: &'a dyn Store,
    tenant: Tenant,
    of: Vec<Stream>,
    /// The links of the rows that were found. Jobs that were enqueued together share a row.
    rows: HashMap<BatchId, Links>,
}

impl<'a> Erasure<'a> {
    /// Finds the rows before the request is executed, because afterwards a job may be deleted at any time. Returns `None` if the request
    /// erases nothing. Fails if this instance cannot overwrite rows.
    pub(crate) async fn prepare(store: &'a dyn Store, request: &Request) -> Result<Option<Erasure<'a>>, StoreError> {
        let of = request.op.erases();
        if of.is_empty() || request.dry_run {
            return Ok(None);
        }
        store.check_can_erase().await?;
        let mut erasure = Erasure { store, tenant: request.context.tenant.clone(), of, rows: HashMap::new() };
        erasure.find_rows().await?;
        Ok(Some(erasure))
    }

    /// Deletes and overwrites what is recorded of the payloads that the request erased.
    pub(crate) async fn overwrite(mut self, answer: &Answer) -> Result<(), StoreError> {
        // The answer to an earlier request with the same key may name other jobs.
        if let Answer::Acted { each, .. } = answer {
            self.of = each.iter().flatten().map(|done| Stream::Job(done.job)).collect();
        }
        self.find_rows().await?;
        let rows: BTreeSet<BatchId> = self.rows.into_keys().collect();
        let rows: Vec<BatchId> = rows.into_iter().collect();
        // Payloads that are stored apart are deleted even if all rows are archived.
        self.store.erase_payloads(&self.of, &rows[..rows.len().min(ROWS)]).await?;
        for rows in rows.chunks(ROWS).skip(1) {
            self.store.erase_payloads(&self.of, rows).await?;
        }
        Ok(())
    }

    /// Adds the rows of the jobs and grants that are in the table. Archived rows have no payloads.
    async fn find_rows(&mut self) -> Result<(), StoreError> {
        for stream in &self.of {
            let mut next = self.last_row(stream).await?;
            while let Some(id) = next {
                if !self.rows.contains_key(&id) {
                    let Some(row) = self.store.batch(id).await? else { break };
                    self.rows.insert(id, row.batch.prev);
                }
                next = self.rows[&id].get(stream);
            }
        }
        Ok(())
    }

    async fn last_row(&self, stream: &Stream) -> Result<Option<BatchId>, StoreError> {
        Ok(match stream {
            Stream::Job(id) => self.store.job(&self.tenant, *id).await?.and_then(|job| job.last),
            Stream::Grant(id) => self.store.grant(&self.tenant, *id).await?.and_then(|grant| grant.last),
            _ => None,
        })
    }
}
