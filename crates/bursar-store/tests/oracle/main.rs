//! Random streams of requests against an oracle that adds everything up anew each time.
//!
//! Every answer and, after every step, every balance must be what the oracle says. [`check`] takes any store, so that
//! the same streams drive every engine.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod model;
mod steps;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use answers::Said;
use bursar_core::budget::Limit;
use bursar_core::decide::Rules;
use bursar_core::grant::{Grant, TokenDigest};
use bursar_core::hold::Hold;
use bursar_core::id::{GrantId, HoldId, IdSource};
use bursar_core::name::{Purpose, Scope, Subject, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Mint, Op, Request};
use bursar_core::scope::{Balance, ScopeState};
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;
use bursar_store::conformance::CommitRequests;
use bursar_store::{
    Clock, LockPolicy, ManualClock, MemoryStore, PostgresOptions, PostgresStore, RequestOutcome, Setup, SqliteStore,
    Store,
};
use model::{KeyModel, Micros, Model, SECOND, bounds};
use proptest::test_runner::{Config, TestError, TestRunner};
use steps::{Sent, Step, scopes, stream};

/// Ten seconds before midnight in Berlin, on the eve of a day with 23 hours.
const START: Micros = 1_774_738_790 * SECOND;
const DAY: Micros = 24 * model::HOUR;

struct Counter(u128);

impl IdSource for Counter {
    fn next_id(&mut self, _: Time) -> u128 {
        self.0 += 1;
        self.0
    }
}

#[test]
fn the_memory_store_agrees_with_the_oracle() {
    agrees(256, async |setup| Arc::new(MemoryStore::new(setup)) as Arc<dyn Store>);
}

#[test]
fn sqlite_agrees_with_the_oracle() {
    agrees(128, async |setup| Arc::new(SqliteStore::in_memory(setup).await.unwrap()) as Arc<dyn Store>);
}

#[test]
fn postgres_agrees_with_the_oracle() {
    agrees(48, async |setup| {
        let url = bursar_testkit::fresh_database();
        let store = PostgresStore::open(&url, setup, PostgresOptions::default()).await;
        Arc::new(store.unwrap()) as Arc<dyn Store>
    });
}

/// Drives fresh stores through so many random streams.
fn agrees(cases: u32, open: impl AsyncFn(Setup) -> Arc<dyn Store>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() });
    let outcome = runner.run(&stream(), |steps| {
        let clock = Arc::new(ManualClock::at(Time::from_micros(START)));
        let setup = Setup {
            // As short as the longest window allows, so that tidying rolls postings up.
            rules: Rules { postings_kept: Span::from_secs(25 * 3_600), ..Rules::default() },
            clock: Some(clock.clone()),
            ids: Arc::new(Mutex::new(Counter(0))),
            migrate: true,
        };
        runtime.block_on(async { check(open(setup).await, &clock, &steps).await });
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, steps)) => {
            let lines: Vec<_> = steps.iter().map(|step| format!("\n  {step:?}")).collect();
            panic!("{reason}, after{}", lines.concat());
        }
        Err(other) => panic!("{other}"),
    }
}

/// Drives a store through a stream and compares all it says with the oracle.
///
/// # Panics
/// When they disagree.
async fn check(store: Arc<dyn Store>, clock: &ManualClock, steps: &[Step]) {
    let mut run = Run { store, clock, model: Model::default(), keyed: Vec::new(), last: Micros::MIN, minted: 0 };
    for step in steps {
        match step {
            Step::Batch(batch) => run.batch(batch).await,
            Step::Jump(by) => run.clock.set(Time::from_micros(run.clock.now().micros() + by)),
            Step::ToExpiry { hold, off } => {
                let place = hold.checked_rem(run.model.holds.len());
                run.go_on_to(place.map(|place| run.model.holds[place].expires_at + off));
            }
            Step::ToEviction { posting, length, off } => {
                let moves = run.model.scopes.values().flat_map(|scope| &scope.moves);
                let dates: Vec<Micros> = moves.flat_map(|m| &m.spends).map(|(dated, _)| dated + length + off).collect();
                run.go_on_to(posting.checked_rem(dates.len()).map(|place| dates[place]));
            }
        }
        run.compare_balances().await;
    }
    run.compare_after_rebuild().await;
}

struct Run<'a> {
    store: Arc<dyn Store>,
    clock: &'a ManualClock,
    model: Model,
    /// Requests that had a key.
    keyed: Vec<Request>,
    /// The instant of the last transaction.
    last: Micros,
    minted: u128,
}

impl Run<'_> {
    fn go_on_to(&self, instant: Option<Micros>) {
        if let Some(instant) = instant.filter(|instant| *instant > self.clock.now().micros()) {
            self.clock.set(Time::from_micros(instant));
        }
    }

    async fn batch(&mut self, batch: &[Sent]) {
        let mut requests: Vec<Request> = Vec::new();
        for sent in batch {
            let request = sent.request(&self.model, &self.keyed);
            requests.extend(request.iter().filter(|_| sent.twin).cloned());
            requests.extend(request);
        }
        // A grant in each transaction makes its instant readable in the journal, also when all else is refused.
        self.minted += 1;
        let sent: Vec<_> = std::iter::once(mint(self.minted)).chain(requests.iter().cloned()).map(Arc::new).collect();
        let outcomes = self.store.commit_requests(&sent, LockPolicy::Skip).await.unwrap();
        let now = self.instant_of_last_batch().await;
        for (request, outcome) in requests.into_iter().zip(outcomes.into_iter().skip(1)) {
            let RequestOutcome::Answered(answer) = outcome else { panic!("{request:?} came to {outcome:?}") };
            self.compare_answer(&request, &answer, now);
            if request.idempotency_key.is_some() {
                self.keyed.push(request);
            }
        }
    }

    /// Time goes by the clock, but never back, and by at most the one microsecond that keeps transactions apart.
    async fn instant_of_last_batch(&mut self) -> Micros {
        let position = self.store.health().await.unwrap().position;
        let rows = self.store.list_journal(position - 1, 1).await.unwrap();
        let now = rows[0].batch.at.micros();
        let least = self.clock.now().micros().max(self.last);
        assert!(now == least || now == self.last + 1, "{now} after {} at {least}", self.last);
        self.last = now;
        now
    }

    fn compare_answer(
        &mut self,
        request: &Request,
        answer: &Result<bursar_core::answer::Outcome, Refusal>,
        now: Micros,
    ) {
        let said = Said::of(answer);
        let known = request.idempotency_key.as_ref().and_then(|key| self.model.keys.get(key));
        if let Some(known) = known.filter(|known| known.until > now) {
            if known.op == request.op {
                let mut first = known.first.clone();
                first.replayed = true;
                first.entry = None;
                assert_eq!(answer.as_ref(), Ok(&first), "{request:?} again at {now}");
            } else {
                let key = request.idempotency_key.clone().unwrap();
                assert_eq!(said, Said::Refused(Refusal::KeyReused { key }), "{request:?} at {now}");
            }
            return;
        }
        let mut next = self.model.clone();
        let expected = next.perform(&request.op, now);
        assert_eq!(said, expected, "{request:?} at {now}");
        self.compare_retries(answer, now);
        if request.dry_run || expected.is_refusal() {
            return;
        }
        let outcome = answer.as_ref().unwrap();
        if let bursar_core::answer::Answer::Submitted(submitted) = &outcome.answer
            && let Some(placed) = &submitted.hold
        {
            next.holds.last_mut().unwrap().id = placed.id;
        }
        let scope = match &request.op {
            Op::Freeze { scope } | Op::Unfreeze { scope } => Some(scope),
            _ => None,
        };
        let idle = scope.is_some_and(|scope| self.model.scopes[scope].frozen == next.scopes[scope].frozen);
        if let Some(key) = request.idempotency_key.clone().filter(|_| !idle) {
            let known = KeyModel { op: request.op.clone(), first: outcome.clone(), until: now + 7 * DAY };
            next.keys.insert(key, known);
        }
        self.model = next;
    }

    /// Before `retry_after` has passed a refused amount does not fit; without one it does not fit by time alone.
    fn compare_retries(&self, answer: &Result<bursar_core::answer::Outcome, Refusal>, now: Micros) {
        let Err(Refusal::Refused(violations)) = answer else { return };
        for violation in violations {
            let Violation::Limit { scope, window, limit, requested, retry_after, possible, .. } = violation else {
                continue;
            };
            // Above the limit itself, only credits could make room, and nobody can know of those to come.
            if !possible {
                assert_eq!(*retry_after, None, "{violation:?} at {now}");
                continue;
            }
            let limit = Limit::new(*limit, window.clone());
            // A bucket that this request would have opened counts from this instant on.
            let mut opened = self.model.clone();
            opened.open_buckets(scope, std::iter::once(window), now);
            let until = retry_after.map_or(now + 1_000 * DAY, |span| now + span.micros() - 1);
            for then in [now, now + (until - now) / 2, until.max(now)] {
                let rest = opened.remaining(scope, &limit, then);
                assert!(rest < *requested, "{violation:?} at {now}: {rest} are left at {then}");
            }
        }
    }

    async fn compare_balances(&self) {
        for scope in scopes() {
            let Some(row) = self.store.scope(&(Tenant::built_in(), scope.clone())).await.unwrap() else {
                assert!(!self.model.scopes.contains_key(&scope), "{scope} is not stored");
                continue;
            };
            let now = row.seen.micros();
            let known = &self.model.scopes[&scope];
            assert_eq!(row.budget.as_deref(), known.budget.as_ref(), "{scope}");
            assert_eq!(row.frozen.is_some(), known.frozen, "{scope}");
            for limit in known.budget.iter().flat_map(|budget| &budget.limits) {
                let balance = row.balance(&limit.window).unwrap_or_else(|| panic!("{scope} keeps no {}", limit.window));
                let said = (balance.remaining(limit.amount), balance.spent(), &balance.crossed);
                let key = (limit.window.clone(), bounds(&limit.window, now).0);
                let crossed = known.crossed.get(&key).cloned().unwrap_or_default();
                let expected =
                    (self.model.remaining(&scope, limit, now), self.model.spent(&scope, limit, now), &crossed);
                assert_eq!(said, expected, "{scope} {} at {now}: remaining, spent, crossed", limit.window);
            }
            row.balances.iter().for_each(|balance| self.compare_balance(&scope, balance, now));
        }
    }

    fn compare_balance(&self, scope: &Scope, balance: &Balance, now: Micros) {
        let (window, model) = (&balance.window, &self.model);
        assert_eq!(balance.held, model.held(scope, window, now), "{scope} {window} at {now}: held");
        match window {
            Window::Bucket { .. } => {
                assert_eq!(balance.level, model.level(scope, window, now), "{scope} {window} at {now}: level");
            }
            _ => assert_eq!(balance.posted, model.posted(scope, window, now), "{scope} {window} at {now}: posted"),
        }
        if matches!(window, Window::Calendar { .. }) {
            let kept = (balance.since.micros(), balance.until.micros());
            assert_eq!(kept, bounds(window, now), "{scope} {window} at {now}: bounds");
        }
    }

    /// Balances are what holds and postings say, and the journal alone brings everything back.
    async fn compare_after_rebuild(&self) {
        // All that was left behind is brought to one instant.
        self.clock.set(Time::from_micros(self.clock.now().micros().max(self.last) + 1));
        let report = self.store.verify().await.unwrap();
        assert!(report.is_ok(), "{:?}", report.violations);
        let before = self.tables().await;
        self.store.rebuild().await.unwrap();
        assert_eq!(self.tables().await, before, "after a rebuild");
        self.compare_balances().await;
        let report = self.store.verify().await.unwrap();
        assert!(report.is_ok(), "after a rebuild: {:?}", report.violations);
    }

    async fn tables(&self) -> (BTreeMap<Scope, ScopeState>, BTreeMap<HoldId, Hold>, Vec<Grant>) {
        let mut rows = BTreeMap::new();
        for scope in scopes() {
            let row = self.store.scope(&(Tenant::built_in(), scope.clone())).await.unwrap();
            rows.extend(row.map(|row| (scope, without_marks(row))));
        }
        let mut holds = BTreeMap::new();
        for hold in &self.model.holds {
            holds.insert(hold.id, self.store.hold(hold.id).await.unwrap().unwrap());
        }
        (rows, holds, self.store.list_grants(&Tenant::built_in(), None, 10_000).await.unwrap())
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

fn mint(number: u128) -> Request {
    Request::from(Op::Mint(Mint {
        id: GrantId(number),
        digest: TokenDigest([0; 32]),
        purpose: Purpose::new("read the time").unwrap(),
        subject: Subject::new("the oracle").unwrap(),
        payload: Payload::default(),
        ttl: Span::from_secs(1),
    }))
}
