//! After every story: balances are what holds and postings say, and the journal alone brings everything back.

use bursar_core::grant::Grant;
use bursar_core::hold::Hold;
use bursar_core::job::Job;
use bursar_core::name::Tenant;
use bursar_core::scope::ScopeState;
use bursar_core::state::ScopeKey;
use bursar_core::time::Span;
use bursar_store::{Clock, Store};
use futures_util::FutureExt;

use crate::story::World;

#[derive(Debug, PartialEq)]
struct Tables {
    scopes: Vec<(ScopeKey, Option<ScopeState>)>,
    holds: Vec<Option<Hold>>,
    grants: Vec<Grant>,
    jobs: Vec<Option<Job>>,
}

impl World {
    #[track_caller]
    pub(crate) fn rebuild(&self) {
        self.verify();
        // Both are brought to one instant, later than any that a scope has seen.
        let now = self.clock.now();
        self.clock.advance(Span::from_secs(7_200));
        let before = self.tables();
        self.store.rebuild().now_or_never().unwrap().unwrap();
        assert_eq!(self.tables(), before, "after a rebuild");
        self.clock.set(now);
        self.verify();
    }

    #[track_caller]
    fn verify(&self) {
        let report = self.store.verify().now_or_never().unwrap().unwrap();
        assert!(report.is_ok(), "{:?}", report.violations);
    }

    fn tables(&self) -> Tables {
        let keys = self.store.page_scopes(None, 1_000).now_or_never().unwrap().unwrap();
        let scope = |key: ScopeKey| {
            let row = self.store.scope(&key).now_or_never().unwrap().unwrap();
            (key, row.map(without_marks))
        };
        Tables {
            scopes: keys.into_iter().map(scope).collect(),
            holds: self.holds.values().map(|id| self.store.hold(*id).now_or_never().unwrap().unwrap()).collect(),
            grants: self.store.grants(&Tenant::built_in(), None, 1_000).now_or_never().unwrap().unwrap(),
            jobs: self.jobs.iter().map(|id| self.store.job(*id).now_or_never().unwrap().unwrap()).collect(),
        }
    }
}

/// How far a scope has been folded depends on who looked at it; what that came to does not.
fn without_marks(mut row: ScopeState) -> ScopeState {
    let fresh = ScopeState::default();
    (row.folded, row.next_expiry) = (fresh.folded, fresh.next_expiry);
    for balance in &mut row.balances {
        (balance.evicted, balance.next_eviction) = (fresh.balances[0].evicted, fresh.balances[0].next_eviction);
    }
    row
}
