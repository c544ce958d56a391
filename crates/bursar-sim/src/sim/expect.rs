//! What each request comes to by the model, compared with what was answered; then the model makes the same change.

use bursar_core::answer::{Answer, Outcome, Submitted};
use bursar_core::budget::{Cover, Limit};
use bursar_core::grant::{GrantFault, GrantState};
use bursar_core::hold::HoldState;
use bursar_core::id::{GrantId, HoldId};
use bursar_core::name::{Scope, Tenant};
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Actual, Command, Op, Redemption, Request, Settle};
use bursar_core::state::ScopeKey;
use bursar_core::time::{Span, Time};
use bursar_core::window::Window;

use super::jobs::ClaimSeen;
use super::model::{ChargeModel, HoldModel, Live, Micros, Model, Move, ScopeModel, totals};

/// What is wrong, in words.
pub(crate) type Check<T = ()> = Result<T, String>;
type Said<'a> = &'a Result<Outcome, Refusal>;

/// One request that is judged.
pub(crate) struct Case<'a> {
    pub(crate) request: &'a Request,
    pub(crate) said: Said<'a>,
    pub(crate) now: Micros,
    /// How many transactions had committed when its own began, and how many have now.
    pub(crate) began: u64,
    pub(crate) commits: u64,
    /// What its transaction found when it looked for jobs to lease.
    pub(crate) claim: Option<&'a ClaimSeen>,
}

impl Case<'_> {
    pub(super) fn tenant(&self) -> &Tenant {
        &self.request.context.tenant
    }

    pub(super) fn key(&self, scope: &Scope) -> ScopeKey {
        (self.tenant().clone(), scope.clone())
    }

    pub(super) fn refused(&self, expected: &Refusal) -> Check<bool> {
        match self.said {
            Err(refusal) if refusal == expected => Ok(false),
            said => Err(format!("expected the refusal \"{expected}\", answered was {said:?}")),
        }
    }

    /// Refused with these violations; when to retry is not compared.
    fn violated(&self, expected: &[Violation]) -> Check<bool> {
        let same = match self.said {
            Err(Refusal::Refused(said)) => {
                said.len() == expected.len() && said.iter().zip(expected).all(|(said, own)| unhurried(said) == *own)
            }
            _ => false,
        };
        if same {
            Ok(false)
        } else {
            Err(format!("expected to be refused for {expected:?}, answered was {:?}", self.said))
        }
    }

    pub(super) fn answer(&self) -> Check<&Answer> {
        match self.said {
            Ok(outcome) => Ok(&outcome.answer),
            Err(refusal) => Err(format!("expected to be done, was refused: {refusal:?}")),
        }
    }
}

fn unhurried(violation: &Violation) -> Violation {
    let mut violation = violation.clone();
    if let Violation::Limit { retry_after, .. } = &mut violation {
        *retry_after = None;
    }
    violation
}

pub(super) fn is<T: PartialEq + std::fmt::Debug>(what: &str, said: &T, expected: &T) -> Check {
    if said == expected { Ok(()) } else { Err(format!("{what}: {said:?} instead of {expected:?}")) }
}

/// A change on each of some scopes.
pub(super) type Moves = Vec<(Scope, Move)>;

impl Model {
    /// Compares, and changes the model unless the request is a dry run. Says whether there was an effect.
    pub(crate) fn judge(&mut self, case: &Case<'_>) -> Check<bool> {
        match &case.request.op {
            Op::Submit(command) => self.submit_with_defaults(case, command),
            Op::Commit { hold, actual } => self.commit(case, *hold, actual),
            Op::Release { hold } => self.release(case, *hold),
            Op::Extend { hold, by } => self.extend(case, *hold, *by),
            Op::Credit { scope, amount, hold } => self.credit(case, scope, *amount, *hold),
            Op::Define { scope, budget } => self.define(case, scope, budget),
            Op::Freeze { scope } => self.freeze(case, scope, true),
            Op::Unfreeze { scope } => self.freeze(case, scope, false),
            Op::Mint(mint) => self.mint(case, mint),
            Op::Revoke { grant } => self.revoke(case, *grant),
            Op::PurgeGrants { grants } => self.purge(case, grants),
            Op::Expire { holds } => self.expire(case, holds),
            Op::Tidy { scopes } => self.tidy(case, scopes),
            Op::DefineQueue { queue, config } => self.define_queue(case, queue, config),
            Op::PauseQueue { queue, paused } => self.pause_queue(case, queue, *paused),
            Op::Lease(_) | Op::Heartbeat { .. } | Op::Finish { .. } | Op::Act { .. } => self.work(case),
            other => Err(format!("the model knows nothing of {other:?}")),
        }
    }

    pub(super) fn arrive<'a>(&mut self, case: &Case<'_>, scopes: impl Iterator<Item = &'a Scope>) {
        for scope in scopes {
            self.scope(&case.key(scope), case.now);
        }
    }

    pub(super) fn scope(&mut self, key: &ScopeKey, now: Micros) -> &mut ScopeModel {
        if !self.scopes.contains_key(key) {
            self.scopes.insert(key.clone(), ScopeModel::default());
        }
        let scope = self.scopes.get_mut(key).expect("it is there");
        scope.arrive(now);
        scope
    }

    pub(super) fn ancestors(&self, tenant: &Tenant, scope: &Scope) -> Vec<Scope> {
        let parent = |scope: &Scope| {
            let budget = self.scopes.get(&(tenant.clone(), scope.clone()))?.budget.as_ref()?;
            budget.parent.clone()
        };
        std::iter::successors(parent(scope), parent).collect()
    }

    /// How many budgets are so many levels below a scope, those right below first.
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

    fn resolve(&self, tenant: &Tenant, command: &Command) -> Vec<ChargeModel> {
        let mut charges: Vec<ChargeModel> = Vec::with_capacity(command.charges.len());
        for asked in &command.charges {
            match charges.iter_mut().find(|known| known.scope == asked.scope) {
                Some(known) => {
                    known.amount += asked.amount;
                    let new: Vec<_> = asked.limits.iter().filter(|l| !known.limits.contains(l)).cloned().collect();
                    known.limits.extend(new);
                }
                None => charges.push(ChargeModel {
                    scope: asked.scope.clone(),
                    amount: asked.amount,
                    ancestors: self.ancestors(tenant, &asked.scope),
                    limits: asked.limits.clone(),
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
        let mut violations = match self.violations(case, &charges, &sums) {
            Ok(violations) => violations,
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
        let held = command.settle != Settle::Now;
        let moves: Moves = sums.iter().map(|(scope, amount)| (scope.clone(), opening(now, *amount, held))).collect();
        let Answer::Submitted(said) = case.answer()? else {
            return Err("a command is answered as another thing".into());
        };
        let placed = said.hold.as_ref().map_or(&[][..], |hold| &hold.charges);
        self.compare_charges(case, if held { placed } else { &said.posted }, &charges, &[], &moves)?;
        self.compare_parts(case, command, said)?;
        let effect = !charges.is_empty() || !command.redeem.is_empty() || said.jobs.iter().any(|job| job.created);
        if case.request.dry_run {
            return Ok(false);
        }
        for charge in charges.iter().filter(|charge| charge.amount > 0) {
            let model = self.scope(&case.key(&charge.scope), now);
            charge.limits.iter().for_each(|limit| model.open_bucket(&limit.window, now));
        }
        if held && !charges.is_empty() {
            self.place(case, command, said, charges)?;
        }
        self.make(case, moves);
        for grant in redeemed {
            self.grants.get_mut(&grant).expect("it is redeemable").state = GrantState::Redeemed;
        }
        self.enqueue(case, command, said);
        let touched: Vec<Scope> = sums.into_iter().map(|(scope, _)| scope).collect();
        self.follow(case, touched)?;
        Ok(effect)
    }

    /// What does not admit charges; or a scope that nothing limits.
    pub(super) fn violations(
        &mut self,
        case: &Case<'_>,
        charges: &[ChargeModel],
        sums: &[(Scope, i64)],
    ) -> Result<Vec<Violation>, Scope> {
        let mut violations = Vec::new();
        for (scope, amount) in sums {
            let given = charges.iter().find(|charge| charge.scope == *scope).map_or(&[][..], |charge| &charge.limits);
            let model = self.scope(&case.key(scope), case.now);
            let limits = model.limits(given);
            if limits.is_empty() {
                return Err(scope.clone());
            }
            if model.is_frozen(case.now) {
                violations.push(Violation::Frozen { scope: scope.clone() });
            }
            violations.extend(limits.iter().filter_map(|limit| lacking(model, scope, limit, *amount, case.now)));
        }
        Ok(violations)
    }

    /// The job that was to own the hold is there already: nothing is charged or redeemed.
    fn owner_found(&self, case: &Case<'_>, command: &Command) -> Option<Check<bool>> {
        let first = command.jobs.first().filter(|_| command.settle == Settle::Job)?;
        let key = (case.tenant().clone(), first.queue.clone(), first.idempotency_key.clone()?);
        let made = matches!(case.answer(), Ok(Answer::Submitted(it)) if it.jobs.first().is_some_and(|job| job.created));
        let job = self.job_keys.get(&key).copied().or_else(|| self.just_given_up(case, &key, made))?;
        let check = || {
            let Answer::Submitted(said) = case.answer()? else { return Err("a found job is no command".into()) };
            is("jobs", &said.jobs.iter().map(|job| (job.id, job.created)).collect::<Vec<_>>(), &vec![(job, false)])?;
            is("what a found job redeems", &said.grants.len(), &0)?;
            self.is_hold_of_found(job, said.hold.as_ref().map(|hold| hold.id))?;
            Ok(false)
        };
        Some(check())
    }

    fn redeemable(&self, case: &Case<'_>, asked: &Redemption, before: &[GrantId]) -> Result<(), GrantFault> {
        if before.contains(&asked.grant) {
            return Err(GrantFault::Redeemed);
        }
        let grant = self.grants.get(&asked.grant).filter(|grant| grant.tenant == *case.tenant());
        let grant = grant.ok_or(GrantFault::Unknown)?;
        if grant.digest != asked.digest {
            return Err(GrantFault::Wrong);
        }
        if (&grant.purpose, &grant.subject) != (&asked.purpose, &asked.subject) {
            return Err(GrantFault::Mismatch);
        }
        match grant.state {
            GrantState::Redeemed => Err(GrantFault::Redeemed),
            GrantState::Revoked => Err(GrantFault::Revoked),
            GrantState::Open if grant.expires_at <= case.now => Err(GrantFault::Expired),
            GrantState::Open => Ok(()),
        }
    }

    /// Grants and jobs of a command that was done.
    fn compare_parts(&self, case: &Case<'_>, command: &Command, said: &Submitted) -> Check {
        match said.jobs.as_slice() {
            // All that was asked for is there already: it is told with its hold.
            [found] if !found.created && command.charges.is_empty() && command.redeem.is_empty() => {
                self.is_hold_of_found(found.id, said.hold.as_ref().map(|hold| hold.id))?;
            }
            _ => is("whether there is a hold", &said.hold.is_some(), &(command.settle != Settle::Now))?,
        }
        is("grants", &said.grants.len(), &command.redeem.len())?;
        for (said, asked) in said.grants.iter().zip(&command.redeem) {
            is("a grant's payload", &said.payload, &Some(self.grants[&asked.grant].payload.clone()))?;
        }
        is("jobs", &said.jobs.len(), &command.jobs.len())?;
        let mut twins = Vec::new();
        for (said, asked) in said.jobs.iter().zip(&command.jobs) {
            let key = asked.idempotency_key.clone().map(|key| (case.tenant().clone(), asked.queue.clone(), key));
            let known = key.as_ref().and_then(|key| self.job_keys.get(key)).copied();
            let twin = twins.iter().find(|(known, _)| key.is_some() && *known == key).map(|(_, id)| *id);
            match known.or(twin).or_else(|| self.just_given_up(case, key.as_ref()?, said.created)) {
                Some(known) => is("a job found", &(said.id, said.created), &(known, false))?,
                None => is("a new job", &said.created, &true)?,
            }
            twins.push((key, said.id));
        }
        Ok(())
    }

    fn enqueue(&mut self, case: &Case<'_>, command: &Command, said: &Submitted) {
        let owned = if command.settle == Settle::Job { said.hold.as_ref().map(|hold| hold.id) } else { None };
        for (place, (said, asked)) in
            said.jobs.iter().zip(&command.jobs).enumerate().filter(|(_, (job, _))| job.created)
        {
            self.enqueued(case, said.id, asked, owned.filter(|_| place == 0));
            if let Some(key) = asked.idempotency_key.clone() {
                self.job_keys.insert((case.tenant().clone(), asked.queue.clone(), key), said.id);
            }
        }
    }

    fn place(&mut self, case: &Case<'_>, command: &Command, said: &Submitted, charges: Vec<ChargeModel>) -> Check {
        let now = case.now;
        let placed = said.hold.as_ref().ok_or("no hold was placed")?;
        let chain = charges.iter().flat_map(ChargeModel::chain);
        let budgets = chain.filter_map(|scope| self.scopes.get(&case.key(scope))?.budget.as_ref());
        let policies: Vec<_> = budgets.map(|budget| &budget.hold).collect();
        let (expires_at, life_until, job) = match &command.settle {
            Settle::Job => (Micros::MAX, Micros::MAX, said.jobs.first().map(|job| job.id)),
            Settle::Hold { ttl } => {
                let asked = ttl.map(Span::micros);
                let granted = if policies.is_empty() {
                    asked.unwrap_or(self.hold_ttl)
                } else {
                    let least = policies.iter().map(|policy| policy.ttl_min.micros()).max().unwrap_or(0);
                    let set = policies.iter().filter_map(|policy| policy.ttl).map(Span::micros).min();
                    let usual = set.unwrap_or(self.hold_ttl);
                    let most = policies.iter().map(|policy| policy.ttl_max.micros()).min().unwrap_or(0);
                    asked.unwrap_or(usual).max(least).min(most)
                };
                let life = policies.iter().filter_map(|policy| policy.life_max).map(Span::micros).min();
                let life_until = life.map_or(Micros::MAX, |life| now + life);
                ((now + granted).min(life_until), life_until, None)
            }
            Settle::Now => unreachable!("it is held"),
        };
        is("when the hold expires", &placed.expires_at.micros(), &expires_at)?;
        let any = |refuses: bool| if refuses { Cover::Refuse } else { Cover::Charge };
        let asked = command.charges.iter().any(|charge| charge.cover == Some(Cover::Refuse));
        let late = any(asked || policies.iter().any(|policy| policy.late == Cover::Refuse));
        let overrun = any(asked || policies.iter().any(|policy| policy.overrun == Cover::Refuse));
        let hold = HoldModel {
            tenant: case.tenant().clone(),
            placed_at: now,
            expires_at,
            life_until,
            late,
            overrun,
            charges,
            state: HoldState::Held,
            job,
            spent: Vec::new(),
        };
        for (scope, amount) in hold.totals() {
            let live = Live { hold: placed.id, placed_at: now, expires_at, amount };
            self.scope(&case.key(&scope), now).live.push(live);
        }
        self.holds.insert(placed.id, hold);
        Ok(())
    }

    pub(super) fn find(&self, case: &Case<'_>, id: HoldId) -> Option<&HoldModel> {
        self.holds.get(&id).filter(|hold| hold.tenant == *case.tenant())
    }

    /// The hold, if it can be settled by hand; else whether it was refused rightly.
    fn settleable(&self, case: &Case<'_>, id: HoldId) -> Result<HoldModel, Check<bool>> {
        let hold = self.find(case, id).ok_or_else(|| case.refused(&Refusal::UnknownHold { hold: id }))?;
        match hold.job {
            Some(job) if hold.state == HoldState::Held => Err(case.refused(&Refusal::OwnedByJob { hold: id, job })),
            _ => Ok(hold.clone()),
        }
    }

    fn commit(&mut self, case: &Case<'_>, id: HoldId, actual: &Actual) -> Check<bool> {
        let now = case.now;
        let hold = match self.settleable(case, id) {
            Ok(hold) => hold,
            Err(refused) => return refused,
        };
        let late = match hold.state_at(now) {
            HoldState::Held => false,
            HoldState::Expired if hold.late == Cover::Refuse => {
                return case.refused(&Refusal::LateRefused { hold: id, at: Time::from_micros(hold.expires_at) });
            }
            HoldState::Expired => true,
            state => return case.refused(&Refusal::AlreadySettled { hold: id, state }),
        };
        let mut actuals: Vec<i64> = hold.charges.iter().map(|charge| charge.amount).collect();
        match actual {
            Actual::Held => {}
            Actual::Amount(_) if hold.charges.len() > 1 => {
                return case.refused(&Refusal::ActualAmbiguous { hold: id, charges: hold.charges.len() });
            }
            Actual::Amount(amount) => actuals[0] = *amount,
            Actual::Each(each) => {
                for (scope, amount) in each {
                    match hold.charges.iter().position(|charge| charge.scope == *scope) {
                        Some(place) => actuals[place] = *amount,
                        None => return case.refused(&Refusal::NoSuchCharge { hold: id, scope: scope.clone() }),
                    }
                }
            }
        }
        let over = hold.charges.iter().zip(&actuals).find(|(charge, actual)| **actual > charge.amount);
        if let Some((charge, actual)) = over.filter(|_| hold.overrun == Cover::Refuse) {
            let (scope, held, actual) = (charge.scope.clone(), charge.amount, *actual);
            return case.refused(&Refusal::OverrunRefused { hold: id, scope, held, actual });
        }
        let overrun: i64 = hold.charges.iter().zip(&actuals).map(|(c, actual)| (actual - c.amount).max(0)).sum();
        let moves = committing(&hold, &actuals, late, now);
        self.arrive(case, moves.iter().map(|(scope, _)| scope));
        let Answer::Settled(said) = case.answer()? else { return Err("a commit is answered as another thing".into()) };
        is(
            "the settled state",
            &(said.hold, said.state, said.late, said.overrun),
            &(id, HoldState::Committed, late, overrun),
        )?;
        self.compare_charges(case, &said.charges, &hold.charges, &actuals, &moves)?;
        if !case.request.dry_run {
            // A late commit is beyond the hold as a whole.
            let dated = |[covered, beyond]: [(Micros, i64); 2]| [if late { (now, 0) } else { covered }, beyond];
            let spent = moves.iter().map(|(scope, change)| (scope.clone(), dated(change.spends))).collect();
            self.holds.get_mut(&id).expect("it was found").spent = spent;
        }
        self.settle(case, id, HoldState::Committed, moves)
    }

    fn release(&mut self, case: &Case<'_>, id: HoldId) -> Check<bool> {
        let now = case.now;
        let hold = match self.settleable(case, id) {
            Ok(hold) => hold,
            Err(refused) => return refused,
        };
        if hold.state_at(now) != HoldState::Held {
            return case.refused(&Refusal::AlreadySettled { hold: id, state: hold.state_at(now) });
        }
        let moves = releasing(&hold, now);
        self.arrive(case, moves.iter().map(|(scope, _)| scope));
        let Answer::Settled(said) = case.answer()? else { return Err("a release is answered as another thing".into()) };
        is(
            "the settled state",
            &(said.hold, said.state, said.late, said.overrun),
            &(id, HoldState::Released, false, 0),
        )?;
        self.compare_charges(case, &said.charges, &hold.charges, &[], &moves)?;
        self.settle(case, id, HoldState::Released, moves)
    }

    /// Ends a hold.
    fn settle(&mut self, case: &Case<'_>, id: HoldId, state: HoldState, moves: Moves) -> Check<bool> {
        if case.request.dry_run {
            return Ok(false);
        }
        let touched: Vec<Scope> = moves.iter().map(|(scope, _)| scope.clone()).collect();
        self.end_hold(case, id, state, moves);
        self.follow(case, touched)?;
        Ok(true)
    }

    pub(super) fn end_hold(&mut self, case: &Case<'_>, id: HoldId, state: HoldState, moves: Moves) {
        self.holds.get_mut(&id).expect("it was found").state = state;
        for (scope, _) in &moves {
            self.scope(&case.key(scope), case.now).live.retain(|live| live.hold != id);
        }
        self.make(case, moves);
    }

    fn extend(&mut self, case: &Case<'_>, id: HoldId, by: Span) -> Check<bool> {
        let now = case.now;
        let hold = match self.settleable(case, id) {
            Ok(hold) => hold,
            Err(refused) => return refused,
        };
        match hold.state_at(now) {
            HoldState::Held => {}
            HoldState::Expired => {
                return case.refused(&Refusal::HoldExpired { hold: id, at: Time::from_micros(hold.expires_at) });
            }
            state => return case.refused(&Refusal::AlreadySettled { hold: id, state }),
        }
        let scopes: Vec<Scope> = hold.totals().into_iter().map(|(scope, _)| scope).collect();
        let mut frozen = Vec::new();
        for scope in &scopes {
            if self.scope(&case.key(scope), now).is_frozen(now) {
                frozen.push(Violation::Frozen { scope: scope.clone() });
            }
        }
        if !frozen.is_empty() {
            return case.violated(&frozen);
        }
        let expires_at = (hold.expires_at + by.micros()).min(hold.life_until);
        if expires_at <= hold.expires_at {
            return case.refused(&Refusal::LifeExceeded { hold: id, until: Time::from_micros(hold.life_until) });
        }
        is("an extension", case.answer()?, &Answer::Extended { hold: id, expires_at: Time::from_micros(expires_at) })?;
        if case.request.dry_run {
            return Ok(false);
        }
        self.holds.get_mut(&id).expect("it was found").expires_at = expires_at;
        for scope in &scopes {
            let scope = self.scope(&case.key(scope), now);
            scope.live.iter_mut().filter(|live| live.hold == id).for_each(|live| live.expires_at = expires_at);
        }
        self.follow(case, scopes)?;
        Ok(true)
    }

    fn credit(&mut self, case: &Case<'_>, scope: &Scope, amount: i64, hold: Option<HoldId>) -> Check<bool> {
        let now = case.now;
        if !self.scopes.get(&case.key(scope)).is_some_and(|scope| scope.known) {
            return case.refused(&Refusal::UnknownScope { scope: scope.clone() });
        }
        let mut named = None;
        let charge = match hold {
            None => {
                let ancestors = self.ancestors(case.tenant(), scope);
                ChargeModel { scope: scope.clone(), amount, ancestors, limits: Vec::new() }
            }
            Some(id) => {
                let Some(hold) = self.find(case, id) else { return case.refused(&Refusal::UnknownHold { hold: id }) };
                let Some(charge) = hold.charges.iter().find(|charge| charge.scope == *scope) else {
                    return case.refused(&Refusal::NoSuchCharge { hold: id, scope: scope.clone() });
                };
                named = Some((id, hold.clone()));
                ChargeModel { amount, ..charge.clone() }
            }
        };
        let touched: Vec<Scope> = charge.chain().cloned().collect();
        self.arrive(case, touched.iter());
        let mut change = |scope: &Scope| {
            let spends = match &mut named {
                None => [(now, -amount), (now, 0)],
                Some((_, hold)) => hold.take_back(scope, amount),
            };
            (scope.clone(), Move { placed_at: now, back: 0, spends })
        };
        let moves: Moves = touched.iter().map(&mut change).collect();
        let Answer::Credited(said) = case.answer()? else { return Err("a credit is answered as another thing".into()) };
        self.compare_charges(case, std::slice::from_ref(said), &[charge], &[], &moves)?;
        if case.request.dry_run {
            return Ok(false);
        }
        self.holds.extend(named);
        self.make(case, moves);
        self.follow(case, touched)?;
        Ok(true)
    }
}

/// How a limit is violated by `amount` more, if it is.
fn lacking(model: &ScopeModel, scope: &Scope, limit: &Limit, amount: i64, now: Micros) -> Option<Violation> {
    let rest = model.remaining(limit, now);
    if amount <= 0 || amount <= rest {
        return None;
    }
    // A bucket never holds more than its capacity; elsewhere credits make room above the limit.
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
    })
}

/// What committing a hold does on each of its scopes.
pub(super) fn committing(hold: &HoldModel, actuals: &[i64], late: bool, now: Micros) -> Moves {
    let held = hold.totals();
    let moves = totals(&hold.charges, |place| actuals[place]).into_iter().zip(&held);
    let change = |((scope, spent), (_, held)): ((Scope, i64), &(Scope, i64))| {
        let back = if late { 0 } else { *held };
        let covered = spent.min(back);
        let spends = [(hold.placed_at, covered), (now, spent - covered)];
        (scope, Move { placed_at: hold.placed_at, back, spends })
    };
    moves.map(change).collect()
}

/// What releasing a hold does on each of its scopes.
pub(super) fn releasing(hold: &HoldModel, now: Micros) -> Moves {
    let back = |back| Move { placed_at: hold.placed_at, back, spends: [(now, 0); 2] };
    hold.totals().into_iter().map(|(scope, held)| (scope, back(held))).collect()
}

/// What a charge does when it is placed or posted.
pub(super) fn opening(now: Micros, amount: i64, held: bool) -> Move {
    let (back, spent) = if held { (-amount, 0) } else { (0, amount) };
    Move { placed_at: now, back, spends: [(now, spent), (now, 0)] }
}
