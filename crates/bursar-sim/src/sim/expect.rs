//! The expected outcome of each request by the model, compared with its answer; then the model makes the same change.

use bursar_core::answer::{Answer, Outcome, Submitted};
use bursar_core::budget::{Cover, HoldPolicy, Limit, Short, WouldRefuse};
use bursar_core::grant::{GrantFault, GrantState};
use bursar_core::hold::HoldState;
use bursar_core::id::GrantId;
use bursar_core::name::{Scope, Tenant};
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Command, Op, Redemption, Request, Settle};
use bursar_core::state::ScopeKey;
use bursar_core::time::Span;
use bursar_core::window::Window;

use super::jobs::ClaimSeen;
use super::model::{ChargeModel, HoldModel, Live, Micros, Model, Move, ScopeModel, totals};

/// `Err` describes a mismatch.
pub(crate) type Check<T = ()> = Result<T, String>;
type Answered<'a> = &'a Result<Outcome, Refusal>;

/// One request to judge.
pub(crate) struct Case<'a> {
    pub(crate) request: &'a Request,
    pub(crate) answered: Answered<'a>,
    pub(crate) now: Micros,
    /// The number of commits when its transaction began, and now.
    pub(crate) began: u64,
    pub(crate) commits: u64,
    /// What its transaction saw when it searched for jobs to lease.
    pub(crate) claim: Option<&'a ClaimSeen>,
}

impl Case<'_> {
    pub(super) fn tenant(&self) -> &Tenant {
        &self.request.context.tenant
    }

    pub(super) fn key(&self, scope: &Scope) -> ScopeKey {
        (self.tenant().clone(), scope.clone())
    }

    /// Returns whether no other transaction ran at the same time.
    pub(super) fn is_alone(&self) -> bool {
        self.began == self.commits
    }

    pub(super) fn refused(&self, expected: &Refusal) -> Check<bool> {
        match self.answered {
            Err(refusal) if refusal == expected => Ok(false),
            answered => Err(format!("expected the refusal \"{expected}\", answered {answered:?}")),
        }
    }

    /// Expects a refusal with these violations; the retry-after time is not compared.
    pub(super) fn violated(&self, expected: &[Violation]) -> Check<bool> {
        let same = match self.answered {
            Err(Refusal::Refused(answered)) => {
                answered.len() == expected.len()
                    && answered.iter().zip(expected).all(|(answered, own)| without_retry_after(answered) == *own)
            }
            _ => false,
        };
        if same { Ok(false) } else { Err(format!("expected a refusal for {expected:?}, answered {:?}", self.answered)) }
    }

    pub(super) fn answer(&self) -> Check<&Answer> {
        match self.answered {
            Ok(outcome) => Ok(&outcome.answer),
            Err(refusal) => Err(format!("expected success, was refused: {refusal:?}")),
        }
    }
}

fn without_retry_after(violation: &Violation) -> Violation {
    let mut violation = violation.clone();
    if let Violation::Limit { retry_after, .. } = &mut violation {
        *retry_after = None;
    }
    violation
}

pub(super) fn is<T: PartialEq + std::fmt::Debug>(what: &str, answered: &T, expected: &T) -> Check {
    if answered == expected { Ok(()) } else { Err(format!("{what}: {answered:?} instead of {expected:?}")) }
}

/// Changes by scope.
pub(super) type Moves = Vec<(Scope, Move)>;

impl Model {
    /// Compares an answer and, unless the request is a dry run, updates the model. Returns whether the request has an effect.
    pub(crate) fn judge(&mut self, case: &Case<'_>) -> Check<bool> {
        match &case.request.op {
            Op::Submit(command) => self.submit_with_defaults(case, command),
            Op::Commit { hold, actual } => self.commit(case, *hold, actual),
            Op::Release { hold } => self.release(case, *hold),
            Op::Extend { hold, by } => self.extend(case, *hold, *by),
            Op::Credit { scope, amount, hold } => self.credit(case, scope, *amount, *hold),
            Op::Define { scope, budget } => self.define(case, scope, budget),
            Op::RemoveBudget { scope } => self.remove_budget(case, scope),
            Op::Freeze { scope } => self.freeze(case, scope, true),
            Op::Unfreeze { scope } => self.freeze(case, scope, false),
            Op::Mint(mint) => self.mint(case, mint),
            Op::Revoke { grant } => self.revoke(case, *grant),
            Op::EraseGrant { grant } => self.erase_grant(case, *grant),
            Op::PurgeGrants { grants } => self.purge(case, grants),
            Op::Expire { holds } => self.expire(case, holds),
            Op::Tidy { scopes } => self.tidy(case, scopes),
            Op::DefineQueue { queue, config } => self.define_queue(case, queue, config),
            Op::PauseQueue { queue, paused } => self.pause_queue(case, queue, *paused),
            Op::Lease(_) | Op::Heartbeat { .. } | Op::Finish { .. } | Op::Act { .. } => self.work(case),
            Op::Emit(emit) => self.emitted(case, emit),
            Op::Blob(op) => self.blob_op(case, op),
            other => Err(format!("the model does not support {other:?}")),
        }
    }

    pub(super) fn advance<'a>(&mut self, case: &Case<'_>, scopes: impl Iterator<Item = &'a Scope>) {
        for scope in scopes {
            self.scope(&case.key(scope), case.now);
        }
    }

    pub(super) fn scope(&mut self, key: &ScopeKey, now: Micros) -> &mut ScopeModel {
        if !self.scopes.contains_key(key) {
            self.scopes.insert(key.clone(), ScopeModel::default());
        }
        let scope = self.scopes.get_mut(key).expect("the scope was just inserted");
        scope.advance(now);
        scope
    }

    pub(super) fn ancestors(&self, tenant: &Tenant, scope: &Scope) -> Vec<Scope> {
        let parent = |scope: &Scope| {
            let budget = self.scopes.get(&(tenant.clone(), scope.clone()))?.budget.as_ref()?;
            budget.parent.clone()
        };
        std::iter::successors(parent(scope), parent).collect()
    }

    /// Counts the budgets below a scope per level, direct children first.
    pub(crate) fn below(&self, (tenant, scope): &ScopeKey) -> Vec<u64> {
        let mut below = Vec::new();
        for (_, other) in self.scopes.keys().filter(|(owner, _)| owner == tenant) {
            if let Some(level) = self.ancestors(tenant, other).iter().position(|above| above == scope) {
                below.resize(below.len().max(level + 1), 0);
                below[level] += 1;
            }
        }
        below
    }

    pub(super) fn resolve(&self, tenant: &Tenant, command: &Command) -> Vec<ChargeModel> {
        let mut charges: Vec<ChargeModel> = Vec::with_capacity(command.charges.len());
        for charge in &command.charges {
            match charges.iter_mut().find(|known| known.scope == charge.scope) {
                Some(known) => {
                    known.amount += charge.amount;
                    let new: Vec<_> = charge.limits.iter().filter(|l| !known.limits.contains(l)).cloned().collect();
                    known.limits.extend(new);
                }
                None => charges.push(ChargeModel {
                    scope: charge.scope.clone(),
                    amount: charge.amount,
                    ancestors: self.ancestors(tenant, &charge.scope),
                    limits: charge.limits.clone(),
                }),
            }
        }
        charges
    }

    pub(super) fn submit(&mut self, case: &Case<'_>, command: &Command) -> Check<bool> {
        let now = case.now;
        if let Some(found) = self.owner_found(case, command) {
            return found;
        }
        let charges = self.resolve(case.tenant(), command);
        let sums = totals(&charges, |place| charges[place].amount);
        let (mut violations, shadowed) = match self.violations(case, &charges, &sums) {
            Ok(found) => found,
            Err(scope) => return case.refused(&Refusal::UnknownScope { scope }),
        };
        let mut redeemed = Vec::new();
        for redemption in &command.redeem {
            if let Err(fault) = self.redeemable(case, redemption, &redeemed) {
                violations.push(Violation::Grant { purpose: redemption.purpose.clone(), fault });
            }
            redeemed.push(redemption.grant);
        }
        if !violations.is_empty() {
            return case.violated(&violations);
        }
        if let Some(refusal) = self.refused_blobs(case, command) {
            return case.refused(&refusal).map_err(|what| format!("references: {what}"));
        }
        let held = command.settle != Settle::Now;
        let moves: Moves =
            sums.iter().map(|(scope, amount)| (scope.clone(), charge_move(now, *amount, held))).collect();
        let nothing = Submitted::default();
        let answered = match case.answer()? {
            Answer::Submitted(answered) => answered,
            // A command that only makes references has nothing to tell.
            Answer::Done if charges.is_empty() && command.redeem.is_empty() && command.jobs.is_empty() => &nothing,
            _ => return Err("a command has an answer of another kind".into()),
        };
        is("what shadow mode would have refused", &answered.would_refuse().to_vec(), &shadowed)?;
        let placed = answered.hold.as_ref().map_or(&[][..], |hold| &hold.charges);
        self.compare_charges(case, if held { placed } else { &answered.posted }, &charges, &[], &moves)?;
        self.compare_parts(case, command, answered)?;
        let effect = !charges.is_empty() || !command.redeem.is_empty() || answered.jobs.iter().any(|job| job.created);
        if case.request.dry_run {
            return Ok(false);
        }
        for charge in charges.iter().filter(|charge| charge.amount > 0) {
            let model = self.scope(&case.key(&charge.scope), now);
            charge.limits.iter().for_each(|limit| model.open_bucket(&limit.window, now));
        }
        if held && !charges.is_empty() {
            self.place(case, command, answered, charges)?;
        }
        self.apply(case, moves);
        for grant in redeemed {
            self.grants.get_mut(&grant).expect("the grant was checked above").state = GrantState::Redeemed;
        }
        self.enqueue(case, command, answered);
        let effect = self.refer(case, command, answered)? || effect;
        let touched: Vec<Scope> = sums.into_iter().map(|(scope, _)| scope).collect();
        self.follow(case, touched)?;
        Ok(effect)
    }

    /// Returns the violations of charges, and those of budgets in shadow mode; or a scope without any limit.
    pub(super) fn violations(
        &mut self,
        case: &Case<'_>,
        charges: &[ChargeModel],
        sums: &[(Scope, i64)],
    ) -> Result<(Vec<Violation>, Vec<WouldRefuse>), Scope> {
        let (mut violations, mut shadowed) = (Vec::new(), Vec::new());
        for (scope, amount) in sums {
            let given = charges.iter().find(|charge| charge.scope == *scope).map_or(&[][..], |charge| &charge.limits);
            let model = self.scope(&case.key(scope), case.now);
            let limits = model.limits(given);
            if limits.is_empty() {
                return Err(scope.clone());
            }
            if model.is_frozen(case.now) {
                if model.ignores_freeze() {
                    shadowed.push(WouldRefuse { scope: scope.clone(), requested: *amount, short: None });
                } else {
                    violations.push(Violation::Frozen { scope: scope.clone() });
                }
            }
            for limit in &limits {
                let Some(violation) = limit_violation(model, scope, limit, *amount, case.now) else { continue };
                if model.in_shadow() && !given.contains(limit) {
                    let (window, available) = (limit.window.clone(), model.remaining(limit, case.now).max(0));
                    let short = Some(Short { window, limit: limit.amount, available });
                    shadowed.push(WouldRefuse { scope: scope.clone(), requested: *amount, short });
                } else {
                    violations.push(violation);
                }
            }
        }
        Ok((violations, shadowed))
    }

    /// Checks the answer if the job that would own the hold exists already: nothing is charged or redeemed.
    fn owner_found(&self, case: &Case<'_>, command: &Command) -> Option<Check<bool>> {
        let first = command.jobs.first().filter(|_| command.settle == Settle::Job)?;
        let key = (case.tenant().clone(), first.queue.clone(), first.idempotency_key.clone()?);
        let made = matches!(case.answer(), Ok(Answer::Submitted(it)) if it.jobs.first().is_some_and(|job| job.created));
        let job = self.job_keys.get(&key).copied().or_else(|| self.just_removed(case, &key, made))?;
        let check = || {
            let Answer::Submitted(answered) = case.answer()? else {
                return Err("an existing job has an answer of another kind".into());
            };
            is(
                "jobs",
                &answered.jobs.iter().map(|job| (job.id, job.created)).collect::<Vec<_>>(),
                &vec![(job, false)],
            )?;
            is("grants redeemed with an existing job", &answered.grants.len(), &0)?;
            self.is_hold_of_found(job, answered.hold.as_ref().map(|hold| hold.id))?;
            Ok(false)
        };
        Some(check())
    }

    fn redeemable(&self, case: &Case<'_>, redemption: &Redemption, before: &[GrantId]) -> Result<(), GrantFault> {
        if before.contains(&redemption.grant) {
            return Err(GrantFault::Redeemed);
        }
        let grant = self.grants.get(&redemption.grant).filter(|grant| grant.tenant == *case.tenant());
        let grant = grant.ok_or(GrantFault::Unknown)?;
        if grant.digest != redemption.digest {
            return Err(GrantFault::Wrong);
        }
        if (&grant.purpose, &grant.subject) != (&redemption.purpose, &redemption.subject) {
            return Err(GrantFault::Mismatch);
        }
        match grant.state {
            GrantState::Redeemed => Err(GrantFault::Redeemed),
            GrantState::Revoked => Err(GrantFault::Revoked),
            GrantState::Open if grant.expires_at <= case.now => Err(GrantFault::Expired),
            GrantState::Open => Ok(()),
        }
    }

    /// Compares the grants and jobs of a command.
    fn compare_parts(&self, case: &Case<'_>, command: &Command, answered: &Submitted) -> Check {
        match answered.jobs.as_slice() {
            // Only an existing job was requested: it is returned with its hold.
            [found] if !found.created && command.charges.is_empty() && command.redeem.is_empty() => {
                self.is_hold_of_found(found.id, answered.hold.as_ref().map(|hold| hold.id))?;
            }
            _ => is("has a hold", &answered.hold.is_some(), &(command.settle != Settle::Now))?,
        }
        is("grants", &answered.grants.len(), &command.redeem.len())?;
        for (answered, redemption) in answered.grants.iter().zip(&command.redeem) {
            is("a grant's payload", &answered.payload, &Some(self.grants[&redemption.grant].payload.clone()))?;
        }
        is("jobs", &answered.jobs.len(), &command.jobs.len())?;
        let mut same_keys = Vec::new();
        for (answered, spec) in answered.jobs.iter().zip(&command.jobs) {
            let key = spec.idempotency_key.clone().map(|key| (case.tenant().clone(), spec.queue.clone(), key));
            let known = key.as_ref().and_then(|key| self.job_keys.get(key)).copied();
            let same = same_keys.iter().find(|(known, _)| key.is_some() && *known == key).map(|(_, id)| *id);
            match known.or(same).or_else(|| self.just_removed(case, key.as_ref()?, answered.created)) {
                Some(known) => is("an existing job", &(answered.id, answered.created), &(known, false))?,
                None => is("a new job", &answered.created, &true)?,
            }
            same_keys.push((key, answered.id));
        }
        Ok(())
    }

    fn enqueue(&mut self, case: &Case<'_>, command: &Command, answered: &Submitted) {
        let owned = if command.settle == Settle::Job { answered.hold.as_ref().map(|hold| hold.id) } else { None };
        for (place, (answered, spec)) in
            answered.jobs.iter().zip(&command.jobs).enumerate().filter(|(_, (job, _))| job.created)
        {
            self.enqueued(case, answered.id, spec, owned.filter(|_| place == 0));
            if let Some(key) = spec.idempotency_key.clone() {
                self.job_keys.insert((case.tenant().clone(), spec.queue.clone(), key), answered.id);
            }
        }
    }

    pub(super) fn place(
        &mut self,
        case: &Case<'_>,
        command: &Command,
        answered: &Submitted,
        charges: Vec<ChargeModel>,
    ) -> Check {
        let now = case.now;
        let placed = answered.hold.as_ref().ok_or("no hold was placed")?;
        let chain = charges.iter().flat_map(ChargeModel::chain);
        let budgets = chain.filter_map(|scope| self.scopes.get(&case.key(scope))?.budget.as_ref());
        let policies: Vec<_> = budgets.map(|budget| &budget.hold).collect();
        let (expires_at, life_until, job, requested) = match &command.settle {
            Settle::Job => (Micros::MAX, Micros::MAX, answered.jobs.first().map(|job| job.id), None),
            Settle::Hold { ttl } => {
                let requested = ttl.map(Span::micros);
                let granted = if policies.is_empty() {
                    requested.unwrap_or(self.hold_ttl)
                } else {
                    let least = policies.iter().map(|policy| policy.ttl_min.micros()).max().unwrap_or(0);
                    let set = policies.iter().filter_map(|policy| policy.ttl).map(Span::micros).min();
                    let usual = set.unwrap_or(self.hold_ttl);
                    let longest = |policy: &&HoldPolicy| {
                        let own = policy.ttl_min.micros().max(policy.ttl.map_or(0, Span::micros));
                        policy.ttl_max.map_or(self.hold_ttl_max.max(own), Span::micros)
                    };
                    let most = policies.iter().map(longest).min().unwrap_or(0);
                    requested.unwrap_or(usual).max(least).min(most)
                };
                let life = policies.iter().filter_map(|policy| policy.life_max).map(Span::micros).min();
                let life_until = life.map_or(Micros::MAX, |life| now + life);
                ((now + granted).min(life_until), life_until, None, requested)
            }
            Settle::Now => unreachable!("a posting places no hold"),
        };
        is("the expiry of a hold", &placed.expires_at.micros(), &expires_at)?;
        let clamped = requested.map(|requested| (requested, expires_at - now)).filter(|(asked, got)| asked != got);
        let answered_clamped = placed.clamped.map(|clamped| (clamped.requested.micros(), clamped.granted.micros()));
        is("a changed time to live", &answered_clamped, &clamped)?;
        let any = |refuses: bool| if refuses { Cover::Refuse } else { Cover::Charge };
        let refuses = command.charges.iter().any(|charge| charge.cover == Some(Cover::Refuse));
        let late = any(refuses || policies.iter().any(|policy| policy.late == Cover::Refuse));
        let overrun = any(refuses || policies.iter().any(|policy| policy.overrun == Cover::Refuse));
        let hold = HoldModel {
            tenant: case.tenant().clone(),
            placed_at: now,
            expires_at,
            life_until,
            on_expiry: command.on_expiry.units(),
            late,
            overrun,
            charges,
            state: HoldState::Held,
            ended_at: None,
            job,
            spent: Vec::new(),
        };
        for (scope, amount) in hold.totals() {
            let on_expiry = hold.charged_by_expiry(&scope);
            let live = Live { hold: placed.id, placed_at: now, expires_at, amount, on_expiry };
            self.scope(&case.key(&scope), now).live.push(live);
        }
        self.holds.insert(placed.id, hold);
        Ok(())
    }
}

/// Returns the violation of a limit by `amount` more units, if any.
fn limit_violation(model: &ScopeModel, scope: &Scope, limit: &Limit, amount: i64, now: Micros) -> Option<Violation> {
    let rest = model.remaining(limit, now);
    if amount <= 0 || amount <= rest {
        return None;
    }
    // A bucket never holds more than its capacity; in other windows credits can exceed the limit.
    let without_holds = match limit.window {
        Window::Bucket { capacity, .. } => capacity,
        _ => rest + model.held(&limit.window, now),
    };
    Some(Violation::Limit {
        scope: scope.clone(),
        window: limit.window.clone(),
        limit: limit.amount,
        requested: amount,
        available: rest.max(0),
        retry_after: None,
        possible: amount <= limit.amount || amount <= without_holds,
        unit: model.budget.as_ref().map(|budget| budget.display_unit()).unwrap_or_default(),
    })
}

/// Returns the changes of committing a hold.
pub(super) fn commit_moves(hold: &HoldModel, actuals: &[i64], late: bool, now: Micros) -> Moves {
    let held = hold.totals();
    let moves = totals(&hold.charges, |place| actuals[place]).into_iter().zip(&held);
    let change = |((scope, spent), (_, held)): ((Scope, i64), &(Scope, i64))| {
        let back = if late { 0 } else { *held };
        let covered = spent.min(back);
        let difference = spent - if late { hold.charged_by_expiry(&scope) } else { covered };
        let spends = match late {
            true => [(hold.expires_at, difference.min(0)), (now, difference.max(0))],
            false => [(hold.placed_at, covered), (now, difference)],
        };
        (scope, Move { placed_at: hold.placed_at, back, spends })
    };
    moves.map(change).collect()
}

/// Returns the changes of releasing a hold.
pub(super) fn release_moves(hold: &HoldModel, now: Micros) -> Moves {
    let back = |back| Move { placed_at: hold.placed_at, back, spends: [(now, 0); 2] };
    hold.totals().into_iter().map(|(scope, held)| (scope, back(held))).collect()
}

/// Returns the change of placing or posting a charge.
pub(super) fn charge_move(now: Micros, amount: i64, held: bool) -> Move {
    let (back, spent) = if held { (-amount, 0) } else { (0, amount) };
    Move { placed_at: now, back, spends: [(now, spent), (now, 0)] }
}
