//! Answers: rendered from events, so that a repeated request gets the same one.

use std::sync::Arc;

use crate::event::{Charged, Entry, Event};
use crate::hold::HoldState;
use crate::id::{CommandId, GrantId, HoldId, JobId};
use crate::job::{Job, JobState, Order};
use crate::name::{Purpose, Scope};
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::time::Time;

/// The answer to a request that was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The command that did it.
    pub command: CommandId,
    /// It had been done before, under the same idempotency key.
    pub replayed: bool,
    /// What came of it.
    pub answer: Answer,
    /// What was written in the journal, to be told once it is durable; `None` when nothing was.
    pub entry: Option<Arc<Entry>>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A command was done.
    Submitted(Submitted),
    /// A hold was committed or released.
    Settled(Settled),
    /// A hold lives longer.
    Extended {
        /// The hold.
        hold: HoldId,
        /// When it expires now.
        expires_at: Time,
    },
    /// Units were given back.
    Credited(Charged),
    /// A grant was made.
    Minted {
        /// The grant.
        grant: GrantId,
        /// Until when it can be redeemed.
        expires_at: Time,
    },
    /// Holds were found expired, or grants removed.
    Swept {
        /// How many.
        count: usize,
    },
    /// Jobs were leased.
    Leased(Leased),
    /// Heartbeats were taken, one answer for each.
    Beaten(Vec<Result<Beaten, Refusal>>),
    /// Leases were ended, one answer for each.
    Finished(Vec<Result<Finished, Refusal>>),
    /// Something was done to jobs.
    Acted {
        /// One answer for each, in order.
        each: Vec<Result<Finished, Refusal>>,
        /// It was a part of something larger, and more parts follow.
        more: bool,
    },
    /// There is nothing to tell.
    Done,
}

/// What a worker got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leased {
    /// The jobs, each with its lease.
    pub jobs: Vec<Job>,
    /// When the next job of these queues is due, or a rate admits it, where that is known.
    pub next_at: Option<Time>,
    /// The instant of the answer, by the clock that the jobs go by.
    pub at: Time,
}

/// A heartbeat that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beaten {
    /// The job.
    pub job: JobId,
    /// What to do.
    pub order: Order,
    /// The lease lapses here.
    pub until: Time,
}

/// What a job has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The job.
    pub job: JobId,
    /// The state it is in.
    pub state: JobState,
    /// When it runs again, if it does.
    pub run_at: Option<Time>,
    /// Its hold, or the last one.
    pub hold: Option<HoldId>,
    /// Units charged for it so far, scope by scope.
    pub cost: Vec<(Scope, i64)>,
}

impl Finished {
    /// Units charged for it so far, on all scopes together.
    pub fn total_cost(&self) -> i64 {
        self.cost.iter().fold(0i64, |sum, (_, amount)| sum.saturating_add(*amount))
    }
}

/// What a command did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submitted {
    /// The hold that was placed.
    pub hold: Option<Placed>,
    /// What was spent at once.
    pub posted: Vec<Charged>,
    /// The grants that were redeemed, in order.
    pub grants: Vec<Redeemed>,
    /// The jobs, in order.
    pub jobs: Vec<Enqueued>,
}

/// A hold that was placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its id.
    pub id: HoldId,
    /// When it expires; `NEVER` while a job owns it.
    pub expires_at: Time,
    /// Its charges, with what was left after them.
    pub charges: Vec<Charged>,
}

/// A grant that was redeemed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redeemed {
    /// What it permitted.
    pub purpose: Purpose,
    /// What it told; `None` when the answer is repeated after the grant was removed.
    pub payload: Option<Payload>,
}

/// A job that was enqueued or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// Its id.
    pub id: JobId,
    /// It is new.
    pub created: bool,
}

/// A hold that was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The hold.
    pub hold: HoldId,
    /// The state it is in.
    pub state: HoldState,
    /// It had expired.
    pub late: bool,
    /// Units above what was held.
    pub overrun: i64,
    /// Its charges, with what was left after them.
    pub charges: Vec<Charged>,
}

impl Settled {
    /// Words that tell what was unusual.
    pub fn warnings(&self) -> Vec<&'static str> {
        let late = self.late.then_some("committed_after_expiry");
        let overrun = (self.overrun > 0).then_some("overrun");
        late.into_iter().chain(overrun).collect()
    }
}

impl Answer {
    /// Renders what a request came to from its events. `payload` knows the payloads of grants.
    pub fn render(entry: &Entry, payload: impl Fn(GrantId) -> Option<Payload>) -> Answer {
        let mut submitted = Submitted::default();
        let mut swept = 0;
        for recorded in &entry.events {
            match &recorded.e {
                Event::HoldPlaced { hold, charges, expires_at, .. } => {
                    submitted.hold = Some(Placed { id: *hold, expires_at: *expires_at, charges: charges.clone() });
                }
                Event::Posted { charges } => submitted.posted.clone_from(charges),
                Event::GrantRedeemed { grant, purpose } => {
                    submitted.grants.push(Redeemed { purpose: purpose.clone(), payload: payload(*grant) });
                }
                Event::JobEnqueued { job, .. } => submitted.jobs.push(Enqueued { id: *job, created: true }),
                Event::JobFound { job } => submitted.jobs.push(Enqueued { id: *job, created: false }),
                Event::HoldCommitted { hold, charges, late, overrun } => {
                    return Answer::Settled(Settled {
                        hold: *hold,
                        state: HoldState::Committed,
                        late: *late,
                        overrun: *overrun,
                        charges: charges.clone(),
                    });
                }
                Event::HoldReleased { hold, charges } => {
                    return Answer::Settled(Settled {
                        hold: *hold,
                        state: HoldState::Released,
                        late: false,
                        overrun: 0,
                        charges: charges.clone(),
                    });
                }
                Event::HoldExtended { hold, expires_at, .. } => {
                    return Answer::Extended { hold: *hold, expires_at: *expires_at };
                }
                Event::Credited { charge, .. } => return Answer::Credited(charge.clone()),
                Event::GrantMinted { grant, expires_at, .. } => {
                    return Answer::Minted { grant: *grant, expires_at: *expires_at };
                }
                Event::BudgetFrozen { .. } | Event::GrantRevoked { .. } => return Answer::Done,
                // A charge may have brought it along.
                Event::BudgetDefined { .. } => {}
                Event::BudgetUnfrozen { turned: false, .. } => return Answer::Done,
                Event::HoldExpired { .. } | Event::GrantPurged { .. } => swept += 1,
                Event::QueueDefined { .. } | Event::ScheduleDefined { .. } | Event::ScheduleRemoved { .. } => {
                    return Answer::Done;
                }
                // What follows from a request is told to those who follow the scope.
                Event::BudgetTripped { .. }
                | Event::BudgetUnfrozen { .. }
                | Event::BudgetCrossed { .. }
                | Event::BudgetCleared { .. } => {}
                // What is done to jobs is answered where it is decided.
                _ => {}
            }
        }
        if submitted != Submitted::default() {
            Answer::Submitted(submitted)
        } else if swept > 0 {
            Answer::Swept { count: swept }
        } else {
            Answer::Done
        }
    }
}
