//! Every limit Bursar sets on its input, in one place.

use crate::refusal::Invalid;
use crate::time::Span;

/// Bytes in a scope, tenant, queue, kind, purpose, subject, key or tag.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes in a reason or a correlation id.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// Bytes in a cron expression.
pub const CRON_BYTES_MAX: usize = 255;
/// Charges in one command, before ancestors are added.
pub const CHARGES_MAX: usize = 1_000;
/// Scopes one command may touch, ancestors included.
pub const SCOPES_MAX: usize = 2_000;
/// Redemptions in one command.
pub const REDEMPTIONS_MAX: usize = 100;
/// Jobs in one command.
pub const JOBS_MAX: usize = 1_000;
/// Tags on one job.
pub const TAGS_MAX: usize = 32;
/// Bytes of a job's or a grant's payload, as JSON.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// A payload up to this size stands in the journal; a larger one is kept beside it.
pub const PAYLOAD_INLINE_BYTES: usize = 1_024;
/// Bytes of one page of a list, near enough: it ends with the item that takes it there.
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// Bytes of payloads that one transaction reads for jobs that may be leased; the best of each queue is read in any case.
pub const CLAIM_BYTES_MAX: usize = 16 << 20;
/// Bytes of the message and the data of one report of progress.
pub const PROGRESS_BYTES_MAX: usize = 64 << 10;
/// Different windows on one scope.
pub const WINDOWS_MAX: usize = 8;
/// Limits given with one charge.
pub const LIMITS_MAX: usize = 8;
/// Thresholds on one budget.
pub const THRESHOLDS_MAX: usize = 16;
/// Scopes in a chain, from the charged one to the root.
pub const DEPTH_MAX: usize = 8;
/// Holds one sweep expires unless told otherwise, and at most.
pub const SWEEP_DEFAULT: usize = 500;
/// Holds one sweep expires at most.
pub const SWEEP_MAX: usize = 10_000;
/// Due charges or postings folded on one scope in one transaction.
pub const FOLD_STEP: usize = 2_000;
/// Attempts a job may be given.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// The highest priority of a job; the lowest is as far below zero.
pub const PRIORITY_MAX: i16 = 1_000;
/// Delays in a list of backoffs.
pub const BACKOFF_STEPS_MAX: usize = 100;
/// Queues, and kinds, one worker asks for at once.
pub const QUEUES_MAX: usize = 100;
/// Jobs one call leases.
pub const CAPACITY_MAX: u32 = 1_000;
/// Jobs one call acts on, and entries in one report of usage.
pub const ITEMS_MAX: usize = 1_000;
/// Ticks of a schedule that one transaction looks at.
pub const TICKS_MAX: usize = 1_000;
/// Bytes of JSON in the payload of a schedule, which each tick copies.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Patterns in one list of a worker's capabilities.
pub const PATTERNS_MAX: usize = 100;
/// Bytes in the kind or the message of a job's error.
pub const ERROR_BYTES_MAX: usize = 4_096;

/// The shortest time to live.
pub const TTL_MIN: Span = Span::from_millis(1);
/// The longest time to live of a hold without a registered budget.
pub const TTL_MAX: Span = Span::from_days(30);
/// The longest time to live of a grant.
pub const GRANT_TTL_MAX: Span = Span::from_days(366);
/// The shortest lease.
pub const LEASE_MIN: Span = Span::from_millis(100);
/// The longest lease without a heartbeat.
pub const LEASE_MAX: Span = Span::from_days(1);
/// How long one call waits for jobs.
pub const WAIT_MAX: Span = Span::from_secs(60);
/// The longest run of a job.
pub const DEADLINE_MAX: Span = Span::from_days(366);
/// What one step of priority is worth: a job that has waited so much longer goes first.
pub const PRIORITY_STEP: Span = Span::from_secs(60);
/// How soon a job that awaits its budget is looked at again at the latest, whatever else wakes it.
pub const AWAIT_MAX: Span = Span::from_secs(60);
/// How long figures of single minutes are kept.
pub const FIGURES_KEPT: Span = Span::from_days(7);
/// How long it is remembered what a flow key used, once nothing of it waits or runs.
pub const FLOW_KEPT: Span = Span::from_days(1);
/// The longest delay of a job.
pub const DELAY_MAX: Span = Span::from_days(3_660);
/// The shortest and the longest rolling window or refill period.
pub const LENGTH_MIN: Span = Span::from_millis(1);
/// The longest rolling window, which is also how long single postings are kept.
pub const LENGTH_MAX: Span = Span::from_days(400);
/// A window that only callers name, not a budget, is closed after this long without being named when its place is wanted.
pub const WINDOW_IDLE: Span = Span::from_days(31);

/// Refuses more items than one call acts on.
pub fn check_items(field: &'static str, count: usize) -> Result<(), Invalid> {
    if count > ITEMS_MAX {
        return Err(Invalid::new(field, format!("has {count} entries; at most {ITEMS_MAX} are allowed")));
    }
    Ok(())
}
