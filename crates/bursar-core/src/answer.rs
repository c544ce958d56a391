//! Answers: the results of requests, rendered from their events, so that a retried request gets the same answer.

use std::sync::Arc;

use crate::budget::WouldRefuse;
use crate::event::{Charged, Entry, Event, StartedBlob, StoredBlob};
use crate::hold::{ClampedTtl, HoldState};
use crate::id::{BlobId, CommandId, GrantId, HoldId, JobId};
use crate::job::{Job, JobState, Order};
use crate::name::{Purpose, Scope};
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::time::Time;

/// The answer to a request that was executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The command that executed it.
    pub command: CommandId,
    /// Whether an earlier request under the same idempotency key was executed, and this is its answer.
    pub replayed: bool,
    /// The answer.
    pub answer: Answer,
    /// The entry of the journal, to publish after the commit; `None` if the request changed nothing.
    pub entry: Option<Arc<Entry>>,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A command was executed.
    Submitted(Submitted),
    /// A hold was committed or released.
    Settled(Settled),
    /// A hold was extended.
    Extended {
        /// The hold.
        hold: HoldId,
        /// Its new expiry.
        expires_at: Time,
        /// The requested extension, if the budgets' longest life of a hold changed it.
        clamped: Option<ClampedTtl>,
    },
    /// Units were credited.
    Credited(Credited),
    /// A grant was created.
    Minted {
        /// The grant.
        grant: GrantId,
        /// When it expires.
        expires_at: Time,
    },
    /// Holds were recorded as expired, grants were deleted, or blobs were doomed or collected.
    Swept {
        /// The number of holds, grants or blobs.
        count: usize,
    },
    /// Jobs were leased.
    Leased(Leased),
    /// Leases were renewed; one answer for each, in order.
    Renewed(Vec<Result<Renewed, Refusal>>),
    /// Leases were ended; one answer for each, in order.
    Finished(Vec<Result<Finished, Refusal>>),
    /// An action was executed on jobs.
    Acted {
        /// One answer for each, in order.
        each: Vec<Result<Finished, Refusal>>,
        /// Whether it was a part of a larger request and more parts follow.
        more: bool,
    },
    /// An upload began or ended.
    Blob(BlobAnswer),
    /// The request was executed and has no result.
    Done,
}

/// The blob of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobAnswer {
    /// The blob: the uploaded one, or a live one with the same bytes.
    pub blob: BlobId,
    /// Whether it is another blob with the same bytes.
    pub found: bool,
}

/// A credit that was posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credited {
    /// The credit, with what the limits left after it.
    pub charge: Charged,
    /// The units credited above all that the scope has spent. With them its limits admit more than their amounts.
    pub excess: i64,
}

impl Credited {
    /// Returns the codes of what was unusual: a credit above all spend.
    pub fn warnings(&self) -> Vec<&'static str> {
        (self.excess > 0).then_some("credit_exceeds_spend").into_iter().collect()
    }
}

/// The jobs that a worker has leased.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leased {
    /// The jobs, each with its lease.
    pub jobs: Vec<Job>,
    /// When the next job of the queues is due or a rate admits it, if known.
    pub next_at: Option<Time>,
    /// The instant of the answer, by the clock of the store.
    pub at: Time,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The job.
    pub job: JobId,
    /// What the worker is to do.
    pub order: Order,
    /// When the lease lapses.
    pub until: Time,
    /// The number of progress reports under this lease so far.
    pub reports: u64,
}

/// A job after its lease was ended or an action was executed on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The job.
    pub job: JobId,
    /// Its state.
    pub state: JobState,
    /// When it runs again, or tries its budget again; `None` if it is leased or has ended.
    pub run_at: Option<Time>,
    /// Its hold; of a finished job the last one.
    pub hold: Option<HoldId>,
    /// Units charged for it so far, by scope.
    pub cost: Vec<(Scope, i64)>,
    /// The units that the ended lease spent above the job's hold; 0 if no lease was ended.
    pub overrun: i64,
}

impl Finished {
    /// Returns the codes of what was unusual: an overrun.
    pub fn warnings(&self) -> Vec<&'static str> {
        (self.overrun > 0).then_some("overrun").into_iter().collect()
    }

    /// Returns the units charged for it so far, summed over all scopes.
    pub fn total_cost(&self) -> i64 {
        self.cost.iter().fold(0i64, |sum, (_, amount)| sum.saturating_add(*amount))
    }
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submitted {
    /// The hold it placed; the hold of the existing job if it found one in place of a new owner.
    pub hold: Option<Placed>,
    /// The charges it posted at once.
    pub posted: Vec<Charged>,
    /// The grants it redeemed, in order.
    pub grants: Vec<Redeemed>,
    /// The jobs it enqueued or found, in order.
    pub jobs: Vec<Enqueued>,
    /// What budgets in shadow mode would have refused; see [`Submitted::would_refuse`]. It is rare, so it has the size of a pointer.
    pub shadowed: Option<Arc<Vec<WouldRefuse>>>,
}

impl Submitted {
    /// Returns the codes of what the caller may not expect: `ttl_lowered` or `ttl_raised` if the hold does not live as long
    /// as requested, `would_refuse` if a budget in shadow mode would have refused the command.
    pub fn warnings(&self) -> Vec<&'static str> {
        let clamped = self.hold.iter().filter_map(|hold| hold.clamped).map(|clamped| clamped.warning());
        clamped.chain(self.shadowed.is_some().then_some("would_refuse")).collect()
    }

    /// Returns what budgets in shadow mode would have refused.
    pub fn would_refuse(&self) -> &[WouldRefuse] {
        self.shadowed.as_ref().map_or(&[], |shadowed| shadowed)
    }
}

/// A hold that was placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its id.
    pub id: HoldId,
    /// When it expires; [`Time::NEVER`] if a job owns it.
    pub expires_at: Time,
    /// Its charges, with what the limits left after them.
    pub charges: Vec<Charged>,
    /// The requested time to live, if the budgets changed it.
    pub clamped: Option<ClampedTtl>,
}

/// A grant that was redeemed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redeemed {
    /// What it permitted.
    pub purpose: Purpose,
    /// Its payload; `None` in a replayed answer if the grant has been deleted since.
    pub payload: Option<Payload>,
}

/// A job that a command enqueued, or found by its idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// Its id.
    pub id: JobId,
    /// Whether it is new.
    pub created: bool,
}

/// A hold that was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The hold.
    pub hold: HoldId,
    /// Its state.
    pub state: HoldState,
    /// Whether it was committed after its expiry.
    pub late: bool,
    /// The units spent above the held amount.
    pub overrun: i64,
    /// Its charges, with what the limits left after them.
    pub charges: Vec<Charged>,
}

impl Settled {
    /// Returns the codes of what was unusual: a late commit, an overrun.
    pub fn warnings(&self) -> Vec<&'static str> {
        let late = self.late.then_some("committed_after_expiry");
        let overrun = (self.overrun > 0).then_some("overrun");
        late.into_iter().chain(overrun).collect()
    }
}

impl Answer {
    /// Renders the answer to a request from its events. `payload` looks up the payload of a grant.
    pub fn render(entry: &Entry, payload: impl Fn(GrantId) -> Option<Payload>) -> Answer {
        if let Some(blob) = entry.events.iter().find_map(|recorded| uploaded(&recorded.e)) {
            return Answer::Blob(blob);
        }
        // The events of holds and credits belong to the bytes of the blobs.
        if let Some(answer) = of_blobs(entry) {
            return answer;
        }
        let would_refuse = entry.events.iter().filter_map(|recorded| match &recorded.e {
            Event::BudgetWouldRefuse(would_refuse) => Some(would_refuse.clone()),
            _ => None,
        });
        let shadowed: Vec<WouldRefuse> = would_refuse.collect();
        let shadowed = (!shadowed.is_empty()).then(|| Arc::new(shadowed));
        let mut submitted = Submitted { shadowed, ..Submitted::default() };
        let mut swept = 0;
        for recorded in &entry.events {
            match &recorded.e {
                Event::HoldPlaced { hold, charges, expires_at, clamped, .. } => {
                    let (charges, clamped) = (charges.clone(), *clamped);
                    submitted.hold = Some(Placed { id: *hold, expires_at: *expires_at, charges, clamped });
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
                Event::HoldExtended { hold, expires_at, clamped, .. } => {
                    return Answer::Extended { hold: *hold, expires_at: *expires_at, clamped: *clamped };
                }
                Event::Credited { charge, excess, .. } => {
                    return Answer::Credited(Credited { charge: charge.clone(), excess: *excess });
                }
                Event::GrantMinted { grant, expires_at, .. } => {
                    return Answer::Minted { grant: *grant, expires_at: *expires_at };
                }
                Event::BudgetRemoved { .. }
                | Event::BudgetFrozen { .. }
                | Event::GrantRevoked { .. }
                | Event::GrantErased { .. }
                | Event::JobEmitted(_) => {
                    return Answer::Done;
                }
                // It may be the default budget of a charge, so the answer depends on the other events.
                Event::BudgetDefined { .. } => {}
                Event::BudgetUnfrozen { turned: false, .. } => return Answer::Done,
                Event::HoldExpired { .. } | Event::GrantPurged { .. } => swept += 1,
                Event::QueueDefined { .. } | Event::ScheduleDefined { .. } | Event::ScheduleRemoved { .. } => {
                    return Answer::Done;
                }
                // Consequences of spend are not part of the answer; readers of the journal see them.
                Event::BudgetTripped { .. }
                | Event::BudgetUnfrozen { .. }
                | Event::BudgetCrossed { .. }
                | Event::BudgetCleared { .. } => {}
                // Operations on jobs are answered where they are decided.
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

/// Returns the answer to the growth or the end of uploads, or to a collection, if the entry is one.
fn of_blobs(entry: &Entry) -> Option<Answer> {
    let is_over = |event: &Event| matches!(event, Event::BlobDoomed { .. } | Event::BlobCollected { .. });
    let count = entry.events.iter().filter(|recorded| is_over(&recorded.e)).count();
    if count > 0 {
        return Some(Answer::Swept { count });
    }
    let grows = entry.events.iter().any(|recorded| matches!(recorded.e, Event::BlobGrown(_)));
    grows.then_some(Answer::Done)
}

/// Returns the answer to an upload, if the event begins or ends one.
fn uploaded(event: &Event) -> Option<BlobAnswer> {
    match event {
        Event::BlobStarted(StartedBlob { blob, .. }) | Event::BlobStored(StoredBlob { blob, .. }) => {
            Some(BlobAnswer { blob: *blob, found: false })
        }
        Event::BlobDoomed { found: Some(found), .. } => Some(BlobAnswer { blob: *found, found: true }),
        _ => None,
    }
}
