//! How tests hand requests to a store without an engine in front of it.

use std::sync::Arc;

use bursar_core::refusal::Invalid;
use bursar_core::request::{CheckedRequest, Request};

use crate::error::StoreError;
use crate::store::{Commit, LockPolicy, RequestOutcome};

/// Commits requests that have not been checked.
#[expect(async_fn_in_trait, reason = "only tests call it, each on a store it names")]
pub trait CommitRequests: Commit {
    /// Checks the requests as the engine does, commits those that pass, and refuses the others.
    async fn commit_requests(
        &self,
        requests: &[Arc<Request>],
        policy: LockPolicy,
    ) -> Result<Vec<RequestOutcome>, StoreError> {
        let checked: Vec<_> = requests.iter().map(|request| CheckedRequest::new((**request).clone())).collect();
        let valid: Vec<_> = checked.iter().flatten().cloned().map(Arc::new).collect();
        let mut outcomes = if valid.is_empty() { Vec::new() } else { self.commit(&valid, policy).await? }.into_iter();
        let outcome = |checked: Result<CheckedRequest, Invalid>| match checked {
            Ok(_) => outcomes.next().expect("one outcome for each request"),
            Err(invalid) => RequestOutcome::Answered(Err(invalid.into())),
        };
        Ok(checked.into_iter().map(outcome).collect())
    }
}

impl<S: Commit + ?Sized> CommitRequests for S {}

/// A request that is known to be valid.
///
/// # Panics
/// When it is not.
pub fn checked(request: impl Into<Request>) -> CheckedRequest {
    CheckedRequest::new(request.into()).expect("a valid request")
}
