//! stub
#![expect(missing_docs, unused_variables, clippy::unused_async, reason = "stub")]
use crate::store::*;
use crate::verify::Report;
use crate::{Setup, StoreError};
use async_trait::async_trait;
use bursar_core::{answer::Outcome, refusal::Refusal, request::Request, state::ScopeKey};
use bursar_core::{event::Batch, grant::Grant, hold::Hold, id::*, job::Job, name::*, scope::ScopeState, time::Time};
use std::sync::Arc;
pub struct PostgresStore;
impl PostgresStore {
    pub async fn open(url: &str, setup: Setup) -> Result<PostgresStore, StoreError> {
        unimplemented!()
    }
    pub async fn commit_in(
        &self,
        conn: &mut sqlx::PgConnection,
        request: &Request,
    ) -> Result<Result<Outcome, Refusal>, StoreError> {
        unimplemented!()
    }
    pub async fn lock_scope(&self, conn: &mut sqlx::PgConnection, key: &ScopeKey) -> Result<(), StoreError> {
        unimplemented!()
    }
    pub fn pool(&self) -> &sqlx::PgPool {
        unimplemented!()
    }
}
pub fn migration_sql() -> String {
    String::new()
}
#[async_trait]
impl crate::Store for PostgresStore {
    async fn commit(&self, requests: &[Arc<Request>], patience: Patience) -> Result<Vec<Verdict>, StoreError> {
        unimplemented!()
    }
    async fn scope(&self, key: &ScopeKey) -> Result<Option<ScopeState>, StoreError> {
        unimplemented!()
    }
    async fn scopes(
        &self,
        tenant: &Tenant,
        prefix: &str,
        after: Option<&Scope>,
        limit: usize,
    ) -> Result<Vec<(Scope, ScopeState)>, StoreError> {
        unimplemented!()
    }
    async fn spent(&self, key: &ScopeKey, from: Time, to: Time) -> Result<i64, StoreError> {
        unimplemented!()
    }
    async fn hold(&self, id: HoldId) -> Result<Option<Hold>, StoreError> {
        unimplemented!()
    }
    async fn live_holds(&self, key: &ScopeKey, limit: usize) -> Result<Vec<Hold>, StoreError> {
        unimplemented!()
    }
    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError> {
        unimplemented!()
    }
    async fn grants(&self, tenant: &Tenant, after: Option<GrantId>, limit: usize) -> Result<Vec<Grant>, StoreError> {
        unimplemented!()
    }
    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        unimplemented!()
    }
    async fn journal(&self, after: u64, limit: usize) -> Result<Vec<Journaled>, StoreError> {
        unimplemented!()
    }
    async fn batch(&self, id: BatchId) -> Result<Option<Journaled>, StoreError> {
        unimplemented!()
    }
    async fn erase_payload(&self, id: u128) -> Result<bool, StoreError> {
        unimplemented!()
    }
    async fn due_holds(&self, limit: usize) -> Result<(Vec<(Tenant, HoldId)>, Time), StoreError> {
        unimplemented!()
    }
    async fn page_scopes(&self, after: Option<&ScopeKey>, limit: usize) -> Result<Vec<ScopeKey>, StoreError> {
        unimplemented!()
    }
    async fn forget_keys(&self, limit: usize) -> Result<usize, StoreError> {
        unimplemented!()
    }
    async fn verify(&self) -> Result<Report, StoreError> {
        unimplemented!()
    }
    async fn rebuild(&self) -> Result<u64, StoreError> {
        unimplemented!()
    }
    async fn health(&self) -> Result<Health, StoreError> {
        unimplemented!()
    }
    async fn close(&self) {
        unimplemented!()
    }
}
