//! Lists of blobs and namespaces.

use std::ops::Bound::{Excluded, Unbounded};

use bursar_core::blob::{Blob, NamespaceState};
use bursar_core::id::BlobId;
use bursar_core::name::{Namespace, Tenant};
use bursar_core::page;
use bursar_core::time::Time;

use super::Tables;
use crate::figures::BlobFilter;

impl Tables {
    /// Lists the blobs of a tenant that match a filter, after an id, or before it if the newest come first.
    pub fn list_blobs(&self, tenant: &Tenant, filter: &BlobFilter, after: Option<BlobId>, limit: usize) -> Vec<Blob> {
        let namespace = filter.namespace.as_ref();
        let wanted = |blob: &&Blob| blob.tenant == *tenant && namespace.is_none_or(|name| blob.namespace == *name);
        let mark = after.map_or(Unbounded, Excluded);
        let found: Vec<Blob> = match filter.newest_first {
            true => self
                .blobs
                .range((Unbounded, mark))
                .rev()
                .map(|(_, blob)| blob)
                .filter(wanted)
                .take(limit)
                .cloned()
                .collect(),
            false => {
                self.blobs.range((mark, Unbounded)).map(|(_, blob)| blob).filter(wanted).take(limit).cloned().collect()
            }
        };
        page::cut(found, limit)
    }

    /// Lists the blobs of all tenants after an id.
    pub fn list_all_blobs(&self, after: Option<BlobId>, limit: usize) -> Vec<Blob> {
        let all = self.blobs.range((after.map_or(Unbounded, Excluded), Unbounded)).map(|(_, blob)| blob);
        page::cut(all.take(limit).cloned().collect(), limit)
    }

    /// Lists the namespaces of a tenant that have rules, after a name.
    pub fn list_namespaces(
        &self,
        tenant: &Tenant,
        after: Option<&Namespace>,
        limit: usize,
    ) -> Vec<(Namespace, NamespaceState)> {
        let all =
            self.namespaces.iter().filter(|((of, name), _)| of == tenant && after.is_none_or(|after| name > after));
        all.take(limit).map(|((_, name), row)| (name.clone(), row.clone())).collect()
    }

    /// Lists blobs that are due: to be doomed, or to have their bytes deleted.
    pub fn due_blobs(&self, limit: usize, now: Time) -> Vec<Blob> {
        let due = self.blobs.values().filter(|blob| blob.maintained_at() <= now && blob.maintained_at() < Time::NEVER);
        let mut due: Vec<&Blob> = due.collect();
        due.sort_by_key(|blob| (blob.maintained_at(), blob.id));
        page::cut(due.into_iter().take(limit).cloned().collect(), limit)
    }
}
