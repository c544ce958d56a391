//! Random requests of callers, of every kind the kernel has.

use std::sync::Arc;

use bursar_core::answer::{Answer, Outcome};
use bursar_core::budget::{Budget, Cover, HoldPolicy, Limit};
use bursar_core::context::Context;
use bursar_core::grant::TokenDigest;
use bursar_core::hold::OnExpiry;
use bursar_core::id::{GrantId, HoldId, JobId};
use bursar_core::job::JobSpec;
use bursar_core::name::{IdempotencyKey, JobKind, Purpose, Queue, Scope, Subject, Tenant};
use bursar_core::payload::Payload;
use bursar_core::request::{Actual, BlobOp, Charge, Command, Mint, Op, Redemption, Request, Settle};
use bursar_core::time::Span;
use bursar_core::window::{CalendarUnit, Window, Zone};

use super::blob_requests::KnownBlobs;
use super::model::LORD_HOWE;
use super::plan::Plan;
use super::random::Random;

/// How many recent holds, grants, jobs and requests are remembered for later requests.
const REMEMBERED: usize = 24;

pub(crate) struct Workload {
    pub(super) tenants: Vec<Tenant>,
    pub(super) scopes: Vec<Scope>,
    /// Scopes that are not defined at the start: charges carry default budgets for them.
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
    /// Whether the world has workers.
    has_workers: bool,
    pub(super) jobs: Vec<(Tenant, JobId)>,
    /// Whether the world has blobs.
    pub(super) has_blobs: bool,
    pub(super) known_blobs: KnownBlobs,
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
            has_workers: plan.workers > 0,
            jobs: Vec::new(),
            has_blobs: plan.blobs,
            known_blobs: KnownBlobs::default(),
        }
    }

    /// Returns the next request. The first ones define all budgets.
    pub(crate) fn next(&mut self, random: &mut Random) -> Request {
        self.numbers += 1;
        let tenant = random.pick(&self.tenants).clone();
        let all = self.tenants.len() * self.scopes.len();
        let (tenant, op) = if self.defined < all {
            let place = self.defined;
            self.defined += 1;
            let (tenant, scope) = (place % self.tenants.len(), place / self.tenants.len());
            (self.tenants[tenant].clone(), self.define(random, scope, true))
        } else if let Some(set_up) = self.blob_set_up(random) {
            set_up
        } else if !self.keyed.is_empty() && random.one_in(25) {
            let mut again = random.pick(&self.keyed).clone();
            again.context.correlation_id = Some(self.numbers.to_string());
            // Each mint request has a new secret, and so a new grant id.
            if let Op::Mint(mint) = &mut again.op {
                (mint.id, mint.digest) = grant_id(self.numbers);
            }
            if random.one_in(5) {
                again.op = self.op(random, &tenant);
            }
            return again;
        } else {
            let op = self.op(random, &tenant);
            (tenant, op)
        };
        if op.is_on_jobs() {
            return self.numbered(tenant, op);
        }
        let is_sweep = |op: &BlobOp| matches!(op, BlobOp::Doom { .. } | BlobOp::Collect { .. });
        let maintenance = match &op {
            Op::Blob(op) => is_sweep(op),
            op => matches!(op, Op::Expire { .. } | Op::Tidy { .. }),
        };
        let key = (!maintenance && !random.one_in(3)).then(|| format!("k{}", self.numbers));
        let correlation_id = Some(self.numbers.to_string());
        let request = Request {
            context: Context { correlation_id, ..Context::of(tenant) },
            idempotency_key: key.and_then(|key| IdempotencyKey::new(key).ok()),
            part: None,
            dry_run: random.one_in(20),
            if_match: None,
            op,
        };
        if request.idempotency_key.is_some() {
            remember(&mut self.keyed, request.clone(), random);
        }
        request
    }

    /// Remembers created objects for later requests.
    pub(crate) fn learn(&mut self, random: &mut Random, request: &Request, outcome: &Outcome) {
        self.learn_blob(random, request, outcome);
        let tenant = request.context.tenant.clone();
        match (&outcome.answer, &request.op) {
            (Answer::Submitted(submitted), _) => {
                for job in submitted.jobs.iter().filter(|_| self.has_workers) {
                    remember(&mut self.jobs, (tenant.clone(), job.id), random);
                }
                if let Some(placed) = &submitted.hold {
                    let scopes = placed.charges.iter().map(|charge| charge.scope.clone()).collect();
                    remember(&mut self.holds, (tenant, placed.id, scopes), random);
                }
            }
            (Answer::Minted { grant, .. }, Op::Mint(mint)) => {
                let (purpose, subject, digest) = (mint.purpose.clone(), mint.subject.clone(), mint.digest);
                remember(&mut self.grants, (tenant, Redemption { purpose, subject, grant: *grant, digest }), random);
            }
            _ => {}
        }
    }

    /// Returns a request without a key, with a new number.
    pub(super) fn numbered(&mut self, tenant: Tenant, op: Op) -> Request {
        self.numbers += 1;
        Request::from(op).in_context(Context { correlation_id: Some(self.numbers.to_string()), ..Context::of(tenant) })
    }

    fn op(&mut self, random: &mut Random, tenant: &Tenant) -> Op {
        if self.has_blobs && random.one_in(3) {
            return self.blob_request(random, tenant);
        }
        let op = self.kernel_op(random, tenant);
        self.with_blobs(random, tenant, op)
    }

    fn kernel_op(&mut self, random: &mut Random, tenant: &Tenant) -> Op {
        if self.has_workers && random.one_in(5) {
            return self.job_request(random, tenant);
        }
        let scope = |random: &mut Random, all: &[Scope]| random.pick(all).clone();
        // Define scopes again whose parents did not exist the first time.
        let kind = if self.long_chains && random.one_in(8) { 75 } else { random.below(100) };
        match kind {
            0..30 => Op::Submit(self.charged(random, true)),
            30..40 => Op::Submit(self.charged(random, false)),
            40..60 => self.commit(random, tenant),
            60..66 => Op::Release { hold: self.hold(random, tenant).0 },
            66..70 => Op::Extend { hold: self.hold(random, tenant).0, by: Span::from_millis(1 + random.below(3_000)) },
            70..75 => self.credit(random, tenant),
            75..78 => {
                if !self.undefined.is_empty() && random.one_in(6) {
                    let Op::Define { budget, .. } = self.define(random, 0, true) else {
                        unreachable!("`define` returns a definition")
                    };
                    return Op::Define { scope: scope(random, &self.undefined), budget };
                }
                let joins = self.long_chains && random.one_in(3);
                let anywhere = random.below(self.scopes.len() as u64) as usize;
                self.define(random, if joins { self.second_chain() } else { anywhere }, false)
            }
            78 if random.one_in(2) => Op::RemoveBudget { scope: scope(random, &self.scopes) },
            78 => Op::Freeze { scope: scope(random, &self.scopes) },
            79..81 => Op::Unfreeze { scope: scope(random, &self.scopes) },
            81..86 => self.mint(random),
            86..92 => self.redeem(random, tenant),
            92..96 => self.enqueue_with_hold(random),
            96 if random.one_in(3) => Op::EraseGrant { grant: self.grant(random, tenant).grant },
            96 => Op::Revoke { grant: self.grant(random, tenant).grant },
            97 => Op::PurgeGrants { grants: vec![self.grant(random, tenant).grant, self.grant(random, tenant).grant] },
            98 => Op::Expire { holds: (0..4).map(|_| self.hold(random, tenant).0).collect() },
            _ => Op::Tidy { scopes: self.scopes.iter().chain(&self.undefined).cloned().collect() },
        }
    }

    pub(super) fn charged(&self, random: &mut Random, hold: bool) -> Command {
        let count = *random.pick(&[1, 1, 1, 2, 3]);
        let charges: Vec<Charge> = (0..count).map(|_| self.charge(random)).collect();
        let held = charges.iter().map(|charge| charge.amount).min().unwrap_or(0);
        let charging = hold && random.one_in(3);
        let on_expiry = if charging { OnExpiry::Charge(random.between(0, held)) } else { OnExpiry::Release };
        let ttl = if random.one_in(5) { None } else { Some(Span::from_millis(1 + random.below(2_000))) };
        let settle = if hold { Settle::Hold { ttl } } else { Settle::Now };
        Command { charges, settle, on_expiry, ..Command::default() }
    }

    fn charge(&self, random: &mut Random) -> Charge {
        let mut charge = Charge::new(random.pick(&self.scopes).clone(), random.between(0, 25));
        if !self.undefined.is_empty() && random.one_in(8) {
            charge.scope = random.pick(&self.undefined).clone();
            charge.default = (!random.one_in(10)).then(|| random.pick(&self.defaults).clone());
        }
        for _ in 0..random.below(6).saturating_sub(3) {
            charge.limits.push(self.limit(random));
        }
        if random.one_in(12) {
            charge.cover = Some(Cover::Refuse);
        }
        charge
    }

    fn commit(&self, random: &mut Random, tenant: &Tenant) -> Op {
        let (hold, scopes) = self.hold(random, tenant);
        let actual = match random.below(4) {
            0 => Actual::Held,
            1 => Actual::Amount(random.between(0, 40)),
            _ => Actual::Each(scopes.into_iter().map(|scope| (scope, random.between(0, 40))).collect()),
        };
        Op::Commit { hold, actual }
    }

    fn credit(&self, random: &mut Random, tenant: &Tenant) -> Op {
        let amount = random.between(0, 40);
        if random.one_in(2) {
            return Op::Credit { scope: random.pick(&self.scopes).clone(), amount, hold: None };
        }
        let (hold, scopes) = self.hold(random, tenant);
        let scope = scopes.first().cloned().unwrap_or_else(|| random.pick(&self.scopes).clone());
        Op::Credit { scope, amount, hold: Some(hold) }
    }

    fn define(&self, random: &mut Random, place: usize, first: bool) -> Op {
        let parent = self.parent(random, place, first).map(|parent| self.scopes[parent].clone());
        let mut limits: Vec<Limit> = (0..1 + random.below(3)).map(|_| self.limit(random)).collect();
        limits.sort_by(|a, b| a.window.cmp(&b.window));
        limits.dedup_by(|a, b| a.window == b.window);
        let cover = |random: &mut Random| if random.one_in(5) { Cover::Refuse } else { Cover::Charge };
        let ttl = (!random.one_in(4)).then(|| Span::from_millis(400));
        let hold = HoldPolicy {
            ttl_min: Span::from_millis(5),
            ttl,
            // A budget without a time to live of its own has no longest one either.
            ttl_max: ttl.map(|_| Span::from_millis(3_000)),
            life_max: random.one_in(4).then(|| Span::from_millis(5 + random.below(5_000))),
            late: cover(random),
            overrun: cover(random),
        };
        let trip = random.one_in(3).then(|| Limit::new(random.between(50, 400), random.pick(&self.windows).clone()));
        let thresholds = random.pick(&[vec![], vec![50], vec![50, 80, 100]]).clone();
        let shadow = random.one_in(8);
        let budget = Budget { parent, hold, trip, thresholds, shadow, ..Budget::new(limits) };
        Op::Define { scope: self.scopes[place].clone(), budget }
    }

    /// Returns a parent for half of the budgets. In worlds with long chains nearly all have one, mostly the previous budget.
    fn parent(&self, random: &mut Random, place: usize, first: bool) -> Option<usize> {
        let among = if first { place } else { self.scopes.len() };
        if place == 0 && first || random.one_in(if self.long_chains { 8 } else { 2 }) {
            return None;
        }
        if self.long_chains && (first || !random.one_in(3)) {
            // A later request tries to attach the second chain to the first, which must be refused.
            let is_root = first && place == self.second_chain();
            return (!is_root).then(|| place.saturating_sub(1));
        }
        Some(random.below(among as u64) as usize)
    }

    /// Returns the index of the first budget of the second chain.
    fn second_chain(&self) -> usize {
        self.scopes.len() / 2
    }

    fn limit(&self, random: &mut Random) -> Limit {
        if random.one_in(4) {
            return random.pick(&self.buckets).clone();
        }
        let window = random.pick(&self.windows).clone();
        let amount = match (&window, random.below(6)) {
            (_, 0) => random.between(0, 40),
            (Window::Lifetime, _) => random.between(500, 8_000),
            _ => random.between(100, 500),
        };
        Limit::new(amount, window)
    }

    fn mint(&self, random: &mut Random) -> Op {
        let number = self.numbers;
        let (id, digest) = grant_id(number);
        Op::Mint(Mint {
            id,
            digest,
            purpose: purpose(random),
            subject: Subject::new("a reader").expect("a name"),
            payload: Payload::new(number.to_string()).expect("a number is JSON"),
            ttl: Span::from_millis(1 + random.below(5_000)),
        })
    }

    fn redeem(&self, random: &mut Random, tenant: &Tenant) -> Op {
        let mut command = if random.one_in(2) { self.charged(random, true) } else { Command::default() };
        command.redeem.push(self.grant(random, tenant));
        if random.one_in(4) {
            command.redeem.push(self.grant(random, tenant));
        }
        if random.one_in(6) {
            command.redeem[0].purpose = purpose(random);
        }
        if random.one_in(2) {
            let mut job = self.job(random);
            job.payload_from_grant = true;
            command.jobs.push(job);
        }
        Op::Submit(command)
    }

    fn enqueue_with_hold(&self, random: &mut Random) -> Op {
        let mut command = self.charged(random, true);
        command.jobs = (0..1 + random.below(2)).map(|_| self.job(random)).collect();
        if random.one_in(3) {
            command.charges.truncate(1);
            // One job settles the hold.
            command.jobs.truncate(1);
            command.settle = Settle::Job;
            command.on_expiry = OnExpiry::Release;
        }
        Op::Submit(command)
    }

    fn job(&self, random: &mut Random) -> JobSpec {
        if self.has_workers {
            return self.job_spec(random);
        }
        let queue = Queue::new("work").expect("a name");
        let mut job = JobSpec::new(queue, JobKind::new("do").expect("a name"), Payload::default());
        // Few enough keys that some jobs exist already.
        let key = || IdempotencyKey::new(format!("j{}", self.numbers / 40)).ok();
        job.idempotency_key = if random.one_in(2) { key() } else { None };
        job
    }

    /// Returns mostly a hold of the tenant; otherwise one of another tenant, or an unknown one.
    fn hold(&self, random: &mut Random, tenant: &Tenant) -> (HoldId, Vec<Scope>) {
        for _ in 0..4 {
            if self.holds.is_empty() {
                break;
            }
            let (owner, id, scopes) = random.pick(&self.holds);
            if owner == tenant || random.one_in(20) {
                return (*id, scopes.clone());
            }
        }
        (HoldId(7), Vec::new())
    }

    fn grant(&self, random: &mut Random, tenant: &Tenant) -> Redemption {
        for _ in 0..4 {
            if self.grants.is_empty() {
                break;
            }
            let (owner, redemption) = random.pick(&self.grants);
            if owner == tenant || random.one_in(20) {
                return redemption.clone();
            }
        }
        let subject = Subject::new("a reader").expect("a name");
        Redemption { purpose: purpose(random), subject, grant: GrantId(7), digest: TokenDigest([0; 32]) }
    }
}

/// Returns the default budgets that charges carry.
fn defaults() -> Vec<Arc<Budget>> {
    let hour = Limit::new(300, Window::utc(CalendarUnit::Hour));
    let short = Limit::new(120, Window::Rolling { length: Span::from_secs(1) });
    let buckets = [(60, 3, 7), (75, 2, 300)].map(|(capacity, refill, millis)| {
        Limit::bucket(capacity, refill, Span::from_millis(millis)).expect("a bucket")
    });
    let [quick, slow] = buckets;
    let budgets = [Budget::new([hour.clone()]), Budget::new([quick, short]), Budget::new([slow, hour])];
    let thresholds = |budget: Budget| Budget { thresholds: vec![50, 100], ..budget };
    budgets.into_iter().map(|budget| Arc::new(thresholds(budget).by_default())).collect()
}

fn purpose(random: &mut Random) -> Purpose {
    Purpose::new(*random.pick(&["read", "read", "write"])).expect("a name")
}

pub(super) fn remember<T>(all: &mut Vec<T>, new: T, random: &mut Random) {
    if all.len() < REMEMBERED {
        all.push(new);
    } else {
        let place = random.below(REMEMBERED as u64) as usize;
        all[place] = new;
    }
}

/// Returns the id of the grant that a request mints, and the digest of its secret.
fn grant_id(number: u64) -> (GrantId, TokenDigest) {
    (GrantId(u128::from(number) << 64 | 0x6a), TokenDigest([number as u8; 32]))
}
