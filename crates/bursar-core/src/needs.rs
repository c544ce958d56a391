//! The keys a request needs, named up front.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Entry, Event};
use crate::id::{GrantId, HoldId, JobId};
use crate::name::{Scope, Tenant};
use crate::request::{Op, Request};
use crate::state::{JobKey, KeyKey, ScopeKey, Workspace};
use crate::window::Window;

/// Rows to load, each kind sorted: the one lock order is keys, job keys, holds, grants, scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Idempotency keys.
    pub keys: BTreeSet<KeyKey>,
    /// Jobs by their keys.
    pub job_keys: BTreeSet<JobKey>,
    /// Holds, whose scopes are needed too.
    pub holds: BTreeSet<HoldId>,
    /// Grants.
    pub grants: BTreeSet<GrantId>,
    /// Jobs.
    pub jobs: BTreeSet<JobId>,
    /// Scopes, whose ancestors are needed too.
    pub scopes: BTreeMap<ScopeKey, ScopeNeed>,
}

/// What is needed of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeNeed {
    /// Windows that must have a balance, beside those of its budget.
    pub windows: BTreeSet<Window>,
    /// The request may bring the scope into being.
    pub create: bool,
}

impl Needs {
    /// What a request needs.
    pub fn of(request: &Request) -> Needs {
        let mut needs = Needs::default();
        needs.add(request);
        needs
    }

    /// Adds what a request needs.
    pub fn add(&mut self, request: &Request) {
        let tenant = &request.context.tenant;
        self.keys.extend(request.idempotency_key.iter().map(|key| (tenant.clone(), key.clone())));
        match &request.op {
            Op::Submit(command) => {
                for charge in &command.charges {
                    let windows = charge.limits.iter().map(|limit| limit.window.clone());
                    let create = !charge.limits.is_empty() && !request.dry_run;
                    self.scope(tenant, &charge.scope, windows, create);
                }
                self.grants.extend(command.redeem.iter().map(|redemption| redemption.grant));
                for job in &command.jobs {
                    let key = job.idempotency_key.iter();
                    self.job_keys.extend(key.map(|key| (tenant.clone(), job.queue.clone(), key.clone())));
                }
            }
            Op::Commit { hold, .. } | Op::Release { hold } | Op::Extend { hold, .. } => {
                self.holds.insert(*hold);
            }
            Op::Credit { scope, hold, .. } => {
                self.holds.extend(hold);
                self.scope(tenant, scope, [], false);
            }
            Op::Define { scope, budget } => {
                self.scope(tenant, scope, budget.windows().cloned(), !request.dry_run);
                if let Some(parent) = &budget.parent {
                    self.scope(tenant, parent, [], false);
                }
            }
            Op::Freeze { scope } | Op::Unfreeze { scope } => self.scope(tenant, scope, [], false),
            // Its id is new.
            Op::Mint(_) => {}
            Op::Revoke { grant } => {
                self.grants.insert(*grant);
            }
            Op::PurgeGrants { grants } => self.grants.extend(grants),
            Op::Expire { holds } => self.holds.extend(holds),
            Op::Tidy { scopes } => scopes.iter().for_each(|scope| self.scope(tenant, scope, [], false)),
        }
    }

    /// Adds what applying an entry of the journal again needs.
    pub fn add_entry(&mut self, entry: &Entry) {
        let tenant = &entry.context.tenant;
        self.keys.extend(entry.key.iter().map(|used| (tenant.clone(), used.key.clone())));
        for recorded in &entry.events {
            for scope in recorded.e.scopes() {
                self.scope(tenant, scope, [], true);
            }
            self.of_event(tenant, &recorded.e);
        }
    }

    fn of_event(&mut self, tenant: &Tenant, event: &Event) {
        match event {
            Event::HoldPlaced { charges, hold, .. } => {
                self.holds.insert(*hold);
                for charge in charges {
                    self.scope(tenant, &charge.scope, charge.limits.iter().map(|l| l.window.clone()), true);
                }
            }
            Event::Posted { charges } => {
                for charge in charges {
                    self.scope(tenant, &charge.scope, charge.limits.iter().map(|l| l.window.clone()), true);
                }
            }
            Event::HoldCommitted { hold, .. }
            | Event::HoldReleased { hold, .. }
            | Event::HoldExpired { hold, .. }
            | Event::HoldExtended { hold, .. } => {
                self.holds.insert(*hold);
            }
            Event::BudgetDefined { scope, budget } => {
                self.scope(tenant, scope, budget.windows().cloned(), true);
                budget.parent.iter().for_each(|parent| self.scope(tenant, parent, [], true));
            }
            Event::BudgetFrozen { scope }
            | Event::BudgetTripped { scope, .. }
            | Event::BudgetUnfrozen { scope, .. }
            | Event::BudgetCrossed { scope, .. }
            | Event::BudgetCleared { scope, .. } => self.scope(tenant, scope, [], true),
            Event::GrantMinted { grant, .. }
            | Event::GrantRedeemed { grant, .. }
            | Event::GrantRevoked { grant }
            | Event::GrantPurged { grant } => {
                self.grants.insert(*grant);
            }
            Event::JobEnqueued { job, spec, .. } => {
                self.jobs.insert(*job);
                let key = spec.idempotency_key.iter();
                self.job_keys.extend(key.map(|key| (tenant.clone(), spec.queue.clone(), key.clone())));
            }
            Event::Credited { hold, .. } => self.holds.extend(hold),
            Event::JobFound { .. } => {}
        }
    }

    fn scope(&mut self, tenant: &Tenant, scope: &Scope, windows: impl IntoIterator<Item = Window>, create: bool) {
        let need = self.scopes.entry((tenant.clone(), scope.clone())).or_default();
        need.windows.extend(windows);
        need.create |= create;
    }

    /// All scopes it comes to in a loaded workspace: the named ones, those of its holds, and their ancestors.
    pub fn scopes_in<'a>(&self, ws: &'a Workspace) -> impl Iterator<Item = ScopeKey> + use<'a> {
        let held = self.holds.iter().filter(|id| ws.holds.is_loaded(*id)).filter_map(|id| ws.holds.get(id));
        let held = held.flat_map(|hold| hold.totals().into_keys().map(|scope| (hold.tenant.clone(), scope)));
        let mut wanted: Vec<ScopeKey> = self.scopes.keys().cloned().chain(held).collect();
        let mut seen: BTreeSet<ScopeKey> = BTreeSet::new();
        std::iter::from_fn(move || {
            loop {
                let key = wanted.pop()?;
                if !seen.insert(key.clone()) {
                    continue;
                }
                if ws.scopes.is_loaded(&key) {
                    let parent = ws.scopes.get(&key).and_then(|row| row.budget.as_ref()?.parent.clone());
                    wanted.extend(parent.map(|parent| (key.0.clone(), parent)));
                }
                return Some(key);
            }
        })
    }
}
