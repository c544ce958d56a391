//! What callers ask for: everything the kernel can be asked, at random.

use std::sync::Arc;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::budget::{Budget, Cover, HoldPolicy, Limit};
use bursar_core::context::Context;
use bursar_core::grant::TokenDigest;
use bursar_core::id::{GrantId, HoldId, JobId};
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, JobKind, Purpose, Queue, Scope, Subject, Tenant};
use bursar_core::payload::Payload;
use bursar_core::request::{Actual, Charge, Command, Mint, Op, Redemption, Request, Settle};
use bursar_core::time::Span;
use bursar_core::window::{CalendarUnit, Window, Zone};

use super::chance::Chance;
use super::model::LORD_HOWE;
use super::plan::Plan;

/// How many of the last holds, grants and requests are remembered to be asked about.
const REMEMBERED: usize = 24;

pub(crate) struct Workload {
    pub(super) tenants: Vec<Tenant>,
    pub(super) scopes: Vec<Scope>,
    /// Scopes that nobody defines at first: charges bring their budgets along.
    undefined: Vec<Scope>,
    defaults: Vec<Arc<Budget>>,
    windows: Vec<Window>,
    buckets: Vec<Limit>,
    holds: Vec<(Tenant, HoldId, Vec<Scope>)>,
    grants: Vec<(Tenant, Redemption)>,
    keyed: Vec<Request>,
    pub(super) numbers: u64,
    defined: usize,
    long_chains: bool,
    /// Somebody works on jobs.
    labour: bool,
    pub(super) jobs: Vec<(Tenant, JobId)>,
}

impl Workload {
    pub(crate) fn new(plan: &Plan) -> Workload {
        let bucket = |capacity, refill, millis| Limit::bucket(capacity, refill, Span::from_millis(millis));
        let berlin = Zone::new("Europe/Berlin").expect("it is a zone");
        let lord_howe = Zone::new(LORD_HOWE).expect("it is a zone");
        Workload {
            tenants: (0..plan.tenants).map(|place| Tenant::new(format!("t{place}")).expect("a name")).collect(),
            scopes: (0..plan.scopes).map(|place| Scope::new(format!("s{place}")).expect("a name")).collect(),
            undefined: (0..plan.undefined).map(|place| Scope::new(format!("c{place}")).expect("a name")).collect(),
            defaults: defaults(),
            windows: vec![
                Window::Lifetime,
                Window::Rolling { length: Span::from_secs(1) },
                Window::Rolling { length: Span::from_secs(3_600) },
                Window::utc(CalendarUnit::Hour),
                Window::calendar(CalendarUnit::Day, berlin),
                Window::calendar(CalendarUnit::Hour, lord_howe),
            ],
            buckets: [bucket(60, 3, 7), bucket(90, 1, 10), bucket(75, 2, 300)].into_iter().flatten().collect(),
            holds: Vec::new(),
            grants: Vec::new(),
            keyed: Vec::new(),
            numbers: 0,
            defined: 0,
            long_chains: plan.long_chains,
            labour: plan.workers > 0,
            jobs: Vec::new(),
        }
    }

    /// A request to make; at first all budgets are defined.
    pub(crate) fn next(&mut self, chance: &mut Chance) -> Request {
        self.numbers += 1;
        let tenant = chance.pick(&self.tenants).clone();
        let all = self.tenants.len() * self.scopes.len();
        let (tenant, op) = if self.defined < all {
            let place = self.defined;
            self.defined += 1;
            let (tenant, scope) = (place % self.tenants.len(), place / self.tenants.len());
            (self.tenants[tenant].clone(), self.define(chance, scope, true))
        } else if !self.keyed.is_empty() && chance.one_in(25) {
            let mut again = chance.pick(&self.keyed).clone();
            again.context.correlation_id = Some(self.numbers.to_string());
            // The secret of a grant is drawn for each request, and its name with it.
            if let Op::Mint(mint) = &mut again.op {
                (mint.id, mint.digest) = drawn(self.numbers);
            }
            if chance.one_in(5) {
                again.op = self.op(chance, &tenant);
            }
            return again;
        } else {
            let op = self.op(chance, &tenant);
            (tenant, op)
        };
        if op.is_of_jobs() {
            return self.numbered(tenant, op);
        }
        let upkeep = matches!(op, Op::Expire { .. } | Op::Tidy { .. });
        let key = (!upkeep && !chance.one_in(3)).then(|| format!("k{}", self.numbers));
        let correlation_id = Some(self.numbers.to_string());
        let request = Request {
            context: Context { correlation_id, ..Context::of(tenant) },
            idempotency_key: key.and_then(|key| IdempotencyKey::new(key).ok()),
            part: None,
            dry_run: chance.one_in(20),
            if_match: None,
            op,
        };
        if request.idempotency_key.is_some() {
            remember(&mut self.keyed, request.clone(), chance);
        }
        request
    }

    /// Remembers what was made, to ask about it later.
    pub(crate) fn learn(&mut self, chance: &mut Chance, request: &Request, outcome: &Outcome) {
        let tenant = request.context.tenant.clone();
        match (&outcome.answer, &request.op) {
            (Answer::Submitted(submitted), _) => {
                for job in submitted.jobs.iter().filter(|_| self.labour) {
                    remember(&mut self.jobs, (tenant.clone(), job.id), chance);
                }
                if let Some(placed) = &submitted.hold {
                    let scopes = placed.charges.iter().map(|charge| charge.scope.clone()).collect();
                    remember(&mut self.holds, (tenant, placed.id, scopes), chance);
                }
            }
            (Answer::Minted { grant, .. }, Op::Mint(mint)) => {
                let (purpose, subject, digest) = (mint.purpose.clone(), mint.subject.clone(), mint.digest);
                remember(&mut self.grants, (tenant, Redemption { purpose, subject, grant: *grant, digest }), chance);
            }
            _ => {}
        }
    }

    /// A request without a key, with a number of its own.
    pub(super) fn numbered(&mut self, tenant: Tenant, op: Op) -> Request {
        self.numbers += 1;
        Request::from(op).in_context(Context { correlation_id: Some(self.numbers.to_string()), ..Context::of(tenant) })
    }

    fn op(&mut self, chance: &mut Chance, tenant: &Tenant) -> Op {
        if self.labour && chance.one_in(5) {
            return self.errand(chance, tenant);
        }
        let scope = |chance: &mut Chance, all: &[Scope]| chance.pick(all).clone();
        // Those who came before their parents are defined again.
        let kind = if self.long_chains && chance.one_in(8) { 75 } else { chance.below(100) };
        match kind {
            0..30 => Op::Submit(self.charged(chance, true)),
            30..40 => Op::Submit(self.charged(chance, false)),
            40..60 => self.commit(chance, tenant),
            60..66 => Op::Release { hold: self.hold(chance, tenant).0 },
            66..70 => Op::Extend { hold: self.hold(chance, tenant).0, by: Span::from_millis(1 + chance.below(3_000)) },
            70..75 => self.credit(chance, tenant),
            75..78 => {
                if !self.undefined.is_empty() && chance.one_in(6) {
                    let Op::Define { budget, .. } = self.define(chance, 0, true) else { unreachable!("it defines") };
                    return Op::Define { scope: scope(chance, &self.undefined), budget };
                }
                let joins = self.long_chains && chance.one_in(3);
                let anywhere = chance.below(self.scopes.len() as u64) as usize;
                self.define(chance, if joins { self.second_chain() } else { anywhere }, false)
            }
            78 => Op::Freeze { scope: scope(chance, &self.scopes) },
            79..81 => Op::Unfreeze { scope: scope(chance, &self.scopes) },
            81..86 => self.mint(chance),
            86..92 => self.redeeming(chance, tenant),
            92..96 => self.working(chance),
            96 => Op::Revoke { grant: self.grant(chance, tenant).grant },
            97 => Op::PurgeGrants { grants: vec![self.grant(chance, tenant).grant, self.grant(chance, tenant).grant] },
            98 => Op::Expire { holds: (0..4).map(|_| self.hold(chance, tenant).0).collect() },
            _ => Op::Tidy { scopes: self.scopes.iter().chain(&self.undefined).cloned().collect() },
        }
    }

    pub(super) fn charged(&self, chance: &mut Chance, hold: bool) -> Command {
        let count = *chance.pick(&[1, 1, 1, 2, 3]);
        let charges = (0..count).map(|_| self.charge(chance)).collect();
        let ttl = if chance.one_in(5) { None } else { Some(Span::from_millis(1 + chance.below(2_000))) };
        Command { charges, settle: if hold { Settle::Hold { ttl } } else { Settle::Now }, ..Command::default() }
    }

    fn charge(&self, chance: &mut Chance) -> Charge {
        let mut charge = Charge::new(chance.pick(&self.scopes).clone(), chance.between(0, 25));
        if !self.undefined.is_empty() && chance.one_in(8) {
            charge.scope = chance.pick(&self.undefined).clone();
            charge.default = (!chance.one_in(10)).then(|| chance.pick(&self.defaults).clone());
        }
        for _ in 0..chance.below(6).saturating_sub(3) {
            charge.limits.push(self.limit(chance));
        }
        if chance.one_in(12) {
            charge.cover = Some(Cover::Refuse);
        }
        charge
    }

    fn commit(&self, chance: &mut Chance, tenant: &Tenant) -> Op {
        let (hold, scopes) = self.hold(chance, tenant);
        let actual = match chance.below(4) {
            0 => Actual::Held,
            1 => Actual::Amount(chance.between(0, 40)),
            _ => Actual::Each(scopes.into_iter().map(|scope| (scope, chance.between(0, 40))).collect()),
        };
        Op::Commit { hold, actual }
    }

    fn credit(&self, chance: &mut Chance, tenant: &Tenant) -> Op {
        let amount = chance.between(0, 40);
        if chance.one_in(2) {
            return Op::Credit { scope: chance.pick(&self.scopes).clone(), amount, hold: None };
        }
        let (hold, scopes) = self.hold(chance, tenant);
        let scope = scopes.first().cloned().unwrap_or_else(|| chance.pick(&self.scopes).clone());
        Op::Credit { scope, amount, hold: Some(hold) }
    }

    fn define(&self, chance: &mut Chance, place: usize, first: bool) -> Op {
        let parent = self.parent(chance, place, first).map(|parent| self.scopes[parent].clone());
        let mut limits: Vec<Limit> = (0..1 + chance.below(3)).map(|_| self.limit(chance)).collect();
        limits.sort_by(|a, b| a.window.cmp(&b.window));
        limits.dedup_by(|a, b| a.window == b.window);
        let cover = |chance: &mut Chance| if chance.one_in(5) { Cover::Refuse } else { Cover::Charge };
        let hold = HoldPolicy {
            ttl_min: Span::from_millis(5),
            ttl: (!chance.one_in(4)).then(|| Span::from_millis(400)),
            ttl_max: Span::from_millis(3_000),
            life_max: chance.one_in(4).then(|| Span::from_millis(5 + chance.below(5_000))),
            late: cover(chance),
            overrun: cover(chance),
        };
        let trip = chance.one_in(3).then(|| Limit::new(chance.between(50, 400), chance.pick(&self.windows).clone()));
        let thresholds = chance.pick(&[vec![], vec![50], vec![50, 80, 100]]).clone();
        let budget = Budget { parent, hold, trip, thresholds, ..Budget::new(limits) };
        Op::Define { scope: self.scopes[place].clone(), budget }
    }

    /// Half of the budgets have a parent. Where chains are long nearly all have, mostly the budget before, in two chains.
    fn parent(&self, chance: &mut Chance, place: usize, first: bool) -> Option<usize> {
        let among = if first { place } else { self.scopes.len() };
        if place == 0 && first || chance.one_in(if self.long_chains { 8 } else { 2 }) {
            return None;
        }
        if self.long_chains && (first || !chance.one_in(3)) {
            // Later the second chain is to be hung below the first, which no rule may let it.
            let apart = first && place == self.second_chain();
            return (!apart).then(|| place.saturating_sub(1));
        }
        Some(chance.below(among as u64) as usize)
    }

    /// The place of the budget that the second of two chains begins with.
    fn second_chain(&self) -> usize {
        self.scopes.len() / 2
    }

    fn limit(&self, chance: &mut Chance) -> Limit {
        if chance.one_in(4) {
            return chance.pick(&self.buckets).clone();
        }
        let window = chance.pick(&self.windows).clone();
        let amount = match (&window, chance.below(6)) {
            (_, 0) => chance.between(0, 40),
            (Window::Lifetime, _) => chance.between(500, 8_000),
            _ => chance.between(100, 500),
        };
        Limit::new(amount, window)
    }

    fn mint(&self, chance: &mut Chance) -> Op {
        let number = self.numbers;
        let (id, digest) = drawn(number);
        Op::Mint(Mint {
            id,
            digest,
            purpose: purpose(chance),
            subject: Subject::new("a reader").expect("a name"),
            payload: Payload::new(number.to_string()).expect("a number is JSON"),
            ttl: Span::from_millis(1 + chance.below(5_000)),
        })
    }

    fn redeeming(&self, chance: &mut Chance, tenant: &Tenant) -> Op {
        let mut command = if chance.one_in(2) { self.charged(chance, true) } else { Command::default() };
        command.redeem.push(self.grant(chance, tenant));
        if chance.one_in(4) {
            command.redeem.push(self.grant(chance, tenant));
        }
        if chance.one_in(6) {
            command.redeem[0].purpose = purpose(chance);
        }
        if chance.one_in(2) {
            let mut job = self.job(chance);
            job.payload_from_grant = true;
            command.jobs.push(job);
        }
        Op::Submit(command)
    }

    fn working(&self, chance: &mut Chance) -> Op {
        let mut command = self.charged(chance, true);
        command.jobs = (0..1 + chance.below(2)).map(|_| self.job(chance)).collect();
        if chance.one_in(3) {
            command.charges.truncate(1);
            command.settle = Settle::Job;
        }
        Op::Submit(command)
    }

    fn job(&self, chance: &mut Chance) -> JobSpec {
        if self.labour {
            return self.task(chance);
        }
        let queue = Queue::new("work").expect("a name");
        let mut job = JobSpec::new(queue, JobKind::new("do").expect("a name"), Payload::default());
        // Few enough that jobs are found again.
        let key = || IdempotencyKey::new(format!("j{}", self.numbers / 40)).ok();
        job.idempotency_key = if chance.one_in(2) { key() } else { None };
        job
    }

    /// A hold of the tenant's, mostly; else any, or one that is not there.
    fn hold(&self, chance: &mut Chance, tenant: &Tenant) -> (HoldId, Vec<Scope>) {
        for _ in 0..4 {
            if self.holds.is_empty() {
                break;
            }
            let (owner, id, scopes) = chance.pick(&self.holds);
            if owner == tenant || chance.one_in(20) {
                return (*id, scopes.clone());
            }
        }
        (HoldId(7), Vec::new())
    }

    fn grant(&self, chance: &mut Chance, tenant: &Tenant) -> Redemption {
        for _ in 0..4 {
            if self.grants.is_empty() {
                break;
            }
            let (owner, redemption) = chance.pick(&self.grants);
            if owner == tenant || chance.one_in(20) {
                return redemption.clone();
            }
        }
        let subject = Subject::new("a reader").expect("a name");
        Redemption { purpose: purpose(chance), subject, grant: GrantId(7), digest: TokenDigest([0; 32]) }
    }
}

/// What a caller may spend for whom nothing else is defined; now one of them is set, now another.
fn defaults() -> Vec<Arc<Budget>> {
    let hour = Limit::new(300, Window::utc(CalendarUnit::Hour));
    let brief = Limit::new(120, Window::Rolling { length: Span::from_secs(1) });
    let buckets = [(60, 3, 7), (75, 2, 300)].map(|(capacity, refill, millis)| {
        Limit::bucket(capacity, refill, Span::from_millis(millis)).expect("a bucket")
    });
    let [quick, slow] = buckets;
    let budgets = [Budget::new([hour.clone()]), Budget::new([quick, brief]), Budget::new([slow, hour])];
    let thresholds = |budget: Budget| Budget { thresholds: vec![50, 100], ..budget };
    budgets.into_iter().map(|budget| Arc::new(thresholds(budget).by_default())).collect()
}

fn purpose(chance: &mut Chance) -> Purpose {
    Purpose::new(*chance.pick(&["read", "read", "write"])).expect("a name")
}

fn remember<T>(all: &mut Vec<T>, new: T, chance: &mut Chance) {
    if all.len() < REMEMBERED {
        all.push(new);
    } else {
        let place = chance.below(REMEMBERED as u64) as usize;
        all[place] = new;
    }
}

/// The name of the grant that a request mints, and the digest of its secret.
fn drawn(number: u64) -> (GrantId, TokenDigest) {
    (GrantId(u128::from(number) << 64 | 0x6a), TokenDigest([number as u8; 32]))
}
