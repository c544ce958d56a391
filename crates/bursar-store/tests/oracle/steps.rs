//! Streams of steps: plain data that shrinks, and is turned into requests when it is run.

use bursar_core::budget::{Budget, Cover, HoldPolicy, Limit};
use bursar_core::id::HoldId;
use bursar_core::name::{IdempotencyKey, Scope};
use bursar_core::request::{Actual, Charge, Command, Op, Request, Settle};
use bursar_core::time::Span;
use bursar_core::window::{CalendarUnit, Window, Zone};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::{HOUR, Micros, Model, SECOND};

const SCOPES: usize = 6;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Requests of one transaction.
    Batch(Vec<PlannedRequest>),
    /// Moves the clock forward or back.
    Jump(Micros),
    /// Moves the clock to just before, at or just after the expiry of a hold.
    ToExpiry { hold: usize, off: Micros },
    /// Moves the clock to just before, at or just after the time at which a posting leaves a rolling window.
    ToEviction { posting: usize, length: Micros, off: Micros },
}

/// A request, and how it is sent.
#[derive(Clone, Debug)]
pub(crate) struct PlannedRequest {
    pub(crate) action: Action,
    pub(crate) key: Option<u8>,
    pub(crate) dry_run: bool,
    /// Whether it is sent a second time in the same transaction.
    pub(crate) duplicate: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Define {
        scope: usize,
        budget: BudgetSpec,
    },
    Charge {
        charges: Vec<ChargeSpec>,
        hold: bool,
        ttl: Option<u64>,
    },
    Commit {
        hold: usize,
        actual: ActualSpec,
    },
    Release {
        hold: usize,
    },
    Extend {
        hold: usize,
        by: u64,
    },
    Credit {
        scope: usize,
        amount: i64,
        hold: Option<usize>,
    },
    Freeze {
        scope: usize,
    },
    Unfreeze {
        scope: usize,
    },
    Sweep,
    Tidy,
    /// Repeats an earlier request that had a key.
    Repeat(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct BudgetSpec {
    parent: Option<usize>,
    limits: Vec<Limit>,
    thresholds: Vec<u32>,
    hold: HoldPolicy,
}

#[derive(Clone, Debug)]
pub(crate) struct ChargeSpec {
    scope: usize,
    amount: i64,
    limits: Vec<Limit>,
}

#[derive(Clone, Debug)]
pub(crate) enum ActualSpec {
    Held,
    Amount(i64),
    Each(Vec<i64>),
}

/// Generates a stream. It first defines most scopes, each without a parent or under an earlier one.
pub(crate) fn stream() -> impl Strategy<Value = Vec<Step>> {
    let opening = vec(option::weighted(0.9, budget()), SCOPES);
    (opening, vec(step(), 0..=110)).prop_map(|(opening, rest)| {
        let defined = opening.into_iter().enumerate().filter_map(|(scope, budget)| {
            let budget = budget?;
            let parent = budget.parent.filter(|parent| *parent < scope);
            Some(Step::Batch(vec![plain_request(Action::Define { scope, budget: BudgetSpec { parent, ..budget } })]))
        });
        defined.chain(rest).collect()
    })
}

fn plain_request(action: Action) -> PlannedRequest {
    PlannedRequest { action, key: None, dry_run: false, duplicate: false }
}

fn step() -> impl Strategy<Value = Step> {
    let off = || -1..=1i64;
    prop_oneof![
        8 => vec(planned_request(), 1..4).prop_map(Step::Batch),
        2 => jump().prop_map(Step::Jump),
        1 => (any::<usize>(), off()).prop_map(|(hold, off)| Step::ToExpiry { hold, off }),
        1 => (any::<usize>(), select(vec![10 * SECOND, HOUR]), off())
            .prop_map(|(posting, length, off)| Step::ToEviction { posting, length, off }),
    ]
}

fn jump() -> impl Strategy<Value = Micros> {
    prop_oneof![
        2 => 1..5i64,
        4 => (1..20_000i64).prop_map(|millis| millis * 1_000),
        2 => (1..10i64).prop_map(|minutes| minutes * 60 * SECOND),
        1 => Just(HOUR),
        1 => Just(25 * HOUR),
        2 => (1..60i64).prop_map(|seconds| -seconds * SECOND),
    ]
}

fn planned_request() -> impl Strategy<Value = PlannedRequest> {
    let key = prop_oneof![4 => Just(None), 1 => (0..20u8).prop_map(Some)];
    let rarely = || prop_oneof![7 => Just(false), 1 => Just(true)];
    (action(), key, rarely(), rarely()).prop_map(|(action, key, dry_run, duplicate)| PlannedRequest {
        action,
        key,
        dry_run,
        duplicate,
    })
}

fn action() -> impl Strategy<Value = Action> {
    let hold = any::<usize>;
    let actual = prop_oneof![
        2 => Just(ActualSpec::Held),
        2 => (0..40i64).prop_map(ActualSpec::Amount),
        2 => vec(0..40i64, 1..4).prop_map(ActualSpec::Each),
    ];
    let ttl = option::of(prop_oneof![1..20u64, 1_000..400_000u64]);
    prop_oneof![
        2 => (0..SCOPES, budget()).prop_map(|(scope, budget)| Action::Define { scope, budget }),
        8 => (charges(), ttl).prop_map(|(charges, ttl)| Action::Charge { charges, hold: true, ttl }),
        3 => charges().prop_map(|charges| Action::Charge { charges, hold: false, ttl: None }),
        5 => (hold(), actual).prop_map(|(hold, actual)| Action::Commit { hold, actual }),
        2 => hold().prop_map(|hold| Action::Release { hold }),
        1 => (hold(), 1..100_000u64).prop_map(|(hold, by)| Action::Extend { hold, by }),
        1 => (0..SCOPES, 0..30i64, option::of(hold()))
            .prop_map(|(scope, amount, hold)| Action::Credit { scope, amount, hold }),
        1 => (0..SCOPES, 0..5u8)
            .prop_map(|(scope, on)| if on == 0 { Action::Freeze { scope } } else { Action::Unfreeze { scope } }),
        1 => Just(Action::Sweep),
        1 => Just(Action::Tidy),
        2 => any::<usize>().prop_map(Action::Repeat),
    ]
}

fn budget() -> impl Strategy<Value = BudgetSpec> {
    let cover = || prop_oneof![3 => Just(Cover::Charge), 1 => Just(Cover::Refuse)];
    let life = prop_oneof![3 => Just(None), 1 => (5..400u64).prop_map(|secs| Some(Span::from_secs(secs)))];
    let policy = (cover(), cover(), life);
    let hold = policy.prop_map(|(late, overrun, life_max)| HoldPolicy {
        ttl_min: Span::from_millis(5),
        late,
        overrun,
        life_max,
        ..HoldPolicy::default()
    });
    let thresholds = select(vec![vec![], vec![50], vec![50, 80, 100]]);
    (option::of(0..SCOPES), vec(limit(), 1..4), thresholds, hold).prop_map(|(parent, mut limits, thresholds, hold)| {
        // A budget has each window at most once.
        limits.sort_by(|a, b| a.window.cmp(&b.window));
        limits.dedup_by(|a, b| a.window == b.window);
        BudgetSpec { parent, limits, thresholds, hold }
    })
}

fn limit() -> impl Strategy<Value = Limit> {
    let buckets = vec![bucket(20, 3, 7 * SECOND), bucket(35, 1, SECOND)];
    prop_oneof![4 => steady_limit(), 2 => select(buckets)]
}

/// Generates a limit, mostly with room for some charges, sometimes with little or none.
fn steady_limit() -> impl Strategy<Value = Limit> {
    let amount = prop_oneof![1 => 0..30i64, 4 => 30..300i64];
    (amount, steady_window()).prop_map(|(amount, window)| Limit::new(amount, window))
}

fn bucket(capacity: i64, refill: i64, length: Micros) -> Limit {
    Limit::bucket(capacity, refill, Span::from_micros(length)).unwrap()
}

fn steady_window() -> impl Strategy<Value = Window> {
    select(vec![
        Window::Lifetime,
        Window::Rolling { length: Span::from_micros(10 * SECOND) },
        Window::Rolling { length: Span::from_micros(HOUR) },
        Window::utc(CalendarUnit::Hour),
        Window::calendar(CalendarUnit::Day, Zone::new("Europe/Berlin").unwrap()),
    ])
}

fn charges() -> impl Strategy<Value = Vec<ChargeSpec>> {
    prop_oneof![3 => vec(charge(), 1), 1 => vec(charge(), 2), 1 => vec(charge(), 3)]
}

fn charge() -> impl Strategy<Value = ChargeSpec> {
    let given = prop_oneof![3 => steady_limit(), 1 => Just(bucket(25, 2, 3 * SECOND))];
    let limits = prop_oneof![2 => Just(Vec::new()), 1 => vec(given, 1..3)];
    (0..SCOPES, 0..25i64, limits).prop_map(|(scope, amount, limits)| ChargeSpec { scope, amount, limits })
}

pub(crate) fn scopes() -> Vec<Scope> {
    (0..SCOPES).map(scope).collect()
}

fn scope(place: usize) -> Scope {
    Scope::new(format!("s{place}")).unwrap()
}

impl PlannedRequest {
    /// Builds the request. `None` if it needs a row that does not exist yet.
    pub(crate) fn request(&self, model: &Model, keyed: &[Request]) -> Option<Request> {
        if let Action::Repeat(place) = self.action {
            return keyed.get(place.checked_rem(keyed.len())?).cloned();
        }
        let key = self.key.map(|key| IdempotencyKey::new(format!("key-{key}")).unwrap());
        // A sweep or tidy has no answer to replay.
        let key = key.filter(|_| !matches!(self.action, Action::Sweep | Action::Tidy));
        let op = self.action.op(model)?;
        Some(Request { idempotency_key: key, dry_run: self.dry_run, ..Request::from(op) })
    }
}

impl Action {
    fn op(&self, model: &Model) -> Option<Op> {
        // One of the last few holds, most of which are live.
        let hold = |place: usize| model.holds.iter().rev().nth(place.checked_rem(model.holds.len().min(5))?);
        Some(match self {
            Action::Define { scope: place, budget } => Op::Define { scope: scope(*place), budget: budget.budget() },
            Action::Charge { charges, hold, ttl } => Op::Submit(Command {
                charges: charges
                    .iter()
                    .map(|c| Charge::new(scope(c.scope), c.amount).within(c.limits.clone()))
                    .collect(),
                settle: if *hold { Settle::Hold { ttl: ttl.map(Span::from_millis) } } else { Settle::Now },
                ..Command::default()
            }),
            Action::Commit { hold: place, actual } => {
                let hold = hold(*place)?;
                let named = hold.charges.iter().map(|charge| charge.scope.clone());
                let actual = match actual {
                    ActualSpec::Held => Actual::Held,
                    ActualSpec::Amount(amount) => Actual::Amount(*amount),
                    ActualSpec::Each(amounts) => Actual::Each(named.zip(amounts.iter().copied()).collect()),
                };
                Op::Commit { hold: hold.id, actual }
            }
            Action::Release { hold: place } => Op::Release { hold: hold(*place)?.id },
            Action::Extend { hold: place, by } => Op::Extend { hold: hold(*place)?.id, by: Span::from_millis(*by) },
            Action::Credit { scope: place, amount, hold: None } => {
                Op::Credit { scope: scope(*place), amount: *amount, hold: None }
            }
            Action::Credit { scope: place, amount, hold: Some(of) } => {
                let hold = hold(*of)?;
                // Mostly a scope of the hold, sometimes one without a charge of it.
                let named = hold.charges.get(*place).map_or_else(|| scope(*place), |charge| charge.scope.clone());
                Op::Credit { scope: named, amount: *amount, hold: Some(hold.id) }
            }
            Action::Freeze { scope: place } => Op::Freeze { scope: scope(*place) },
            Action::Unfreeze { scope: place } => Op::Unfreeze { scope: scope(*place) },
            Action::Sweep => Op::Expire { holds: model.holds.iter().map(|hold| hold.id).collect::<Vec<HoldId>>() },
            Action::Tidy => Op::Tidy { scopes: scopes() },
            Action::Repeat(_) => unreachable!("a repeated request is not built again"),
        })
    }
}

impl BudgetSpec {
    fn budget(&self) -> Budget {
        Budget {
            parent: self.parent.map(scope),
            thresholds: self.thresholds.clone(),
            hold: self.hold.clone(),
            ..Budget::new(self.limits.clone())
        }
    }
}
