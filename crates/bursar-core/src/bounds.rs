//! Every bound on Bursar's input and on the work of one transaction, in one place.

use crate::refusal::Invalid;
use crate::time::Span;

/// The most bytes in a scope, tenant, queue, kind, purpose, subject, key or tag.
pub const NAME_BYTES_MAX: usize = 255;
/// The most bytes in a reason or a correlation id.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// The most bytes in the symbol of a unit.
pub const SYMBOL_BYTES_MAX: usize = 16;
/// The most decimals of a unit.
pub const UNIT_DECIMALS_MAX: u8 = 12;
/// The most bytes in a cron expression.
pub const CRON_BYTES_MAX: usize = 255;
/// The most charges in one command, not counting ancestors.
pub const CHARGES_MAX: usize = 1_000;
/// The most scopes one command may touch, ancestors included.
pub const SCOPES_MAX: usize = 2_000;
/// The most redemptions in one command.
pub const REDEMPTIONS_MAX: usize = 100;
/// The most jobs in one command.
pub const JOBS_MAX: usize = 1_000;
/// The most tags on one job.
pub const TAGS_MAX: usize = 32;
/// The most bytes in the payload of a job or a grant, as JSON.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The most bytes in a payload that is stored in the journal; a larger one is stored in a table of its own.
pub const PAYLOAD_INLINE_BYTES: usize = 1_024;
/// The approximate bytes in one page of a list: the page ends with the item that reaches the bound.
pub const PAGE_BYTES_MAX: usize = 4 << 20;
/// The bytes of payloads one transaction loads for jobs that may be leased. The first job of each queue is always
/// loaded.
pub const CLAIM_BYTES_MAX: usize = 16 << 20;
/// The most bytes in the message and the data of one progress report, which the row of its job keeps.
pub const PROGRESS_BYTES_MAX: usize = 16 << 10;
/// The most bytes in the data of an event that a worker emits, which the journal keeps.
pub const EMITTED_BYTES_MAX: usize = 16 << 10;
/// The most bytes in the checkpoint of a job, which each of its leases carries.
pub const CHECKPOINT_BYTES_MAX: usize = 16 << 10;
/// The most windows in use on one scope, not counting the lifetime.
pub const WINDOWS_MAX: usize = 8;
/// The most limits in one budget or with one charge.
pub const LIMITS_MAX: usize = 8;
/// The most thresholds on one budget.
pub const THRESHOLDS_MAX: usize = 16;
/// The most budgets in a chain, from the charged one to the root.
pub const DEPTH_MAX: usize = 8;
/// The number of holds one sweep expires by default.
pub const SWEEP_DEFAULT: usize = 500;
/// The most holds one sweep expires.
pub const SWEEP_MAX: usize = 10_000;
/// The most due charges, and due postings of a window, folded on one scope in one transaction.
pub const FOLD_STEP: usize = 2_000;
/// The most attempts a job may be given.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// The highest priority of a job; the lowest is its negative.
pub const PRIORITY_MAX: i16 = 1_000;
/// The most delays in a list of backoffs.
pub const BACKOFF_STEPS_MAX: usize = 100;
/// The most queues, and the most kinds, in one lease request.
pub const QUEUES_MAX: usize = 100;
/// The most jobs one call leases.
pub const CAPACITY_MAX: u32 = 1_000;
/// The most jobs one call acts on, and the most entries in one usage report.
pub const ITEMS_MAX: usize = 1_000;
/// The most ticks of a schedule that one transaction handles.
pub const TICKS_MAX: usize = 1_000;
/// The most bytes in the payload of a schedule, which every tick copies.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// The most patterns in one list of a worker's capabilities.
pub const PATTERNS_MAX: usize = 100;
/// The most bytes of one blob: 5 TiB, the most that S3 stores as one object.
pub const BLOB_BYTES_MAX: u64 = 5 << 40;
/// The most blobs that one job names, used and made together.
pub const JOB_BLOBS_MAX: usize = 100;
/// The most references in one command, not counting those of its jobs.
pub const REFERENCES_MAX: usize = 100;
/// The most references of the application to one blob. Jobs are only counted.
pub const BLOB_REFERENCES_MAX: usize = 256;
/// The bytes that are held first for an upload of unknown length. Each further step doubles them.
pub const UPLOAD_STEP: u64 = 8 << 20;
/// The bytes of journal rows, before compression, at which a segment of the archive is full. A larger row gets a segment of its own.
pub const SEGMENT_BYTES: usize = 16 << 20;
/// The bytes of journal rows, before compression, at which a block of a segment is full. A reader of one row reads one block.
pub const SEGMENT_BLOCK_BYTES: usize = 256 << 10;
/// The most bytes in the kind, and in the message, of a job's error.
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
/// The longest time one call waits for jobs.
pub const WAIT_MAX: Span = Span::from_secs(60);
/// The longest run of a job.
pub const DEADLINE_MAX: Span = Span::from_days(366);
/// The waiting time that equals one step of priority: a job that has waited this much longer is leased before one whose
/// priority is higher by one.
pub const PRIORITY_STEP: Span = Span::from_secs(60);
/// The longest time until a job that waits for its budget is tried again, even if nothing wakes it.
pub const AWAIT_MAX: Span = Span::from_secs(60);
/// How long the per-minute figures of queues are kept.
pub const FIGURES_KEPT: Span = Span::from_days(7);
/// How long the scopes of a flow key are kept after its last use.
pub const FLOW_KEPT: Span = Span::from_days(1);
/// The longest time that an upload may stand still.
pub const UPLOAD_TTL_MAX: Span = Span::from_days(7);
/// The longest time that a deleted blob, or one without references, is kept.
pub const BLOB_KEPT_MAX: Span = Span::from_days(3_660);
/// The longest delay of a job.
pub const DELAY_MAX: Span = Span::from_days(3_660);
/// The shortest rolling window or refill period.
pub const LENGTH_MIN: Span = Span::from_millis(1);
/// The longest rolling window or refill period, and by default how long single postings are kept.
pub const LENGTH_MAX: Span = Span::from_days(400);
/// How long a window that no budget has must have been unused before it can be closed to make room for another one.
pub const WINDOW_IDLE: Span = Span::from_days(31);

/// Refuses more items than one call may act on.
pub fn check_items(field: &'static str, count: usize) -> Result<(), Invalid> {
    if count > ITEMS_MAX {
        return Err(Invalid::new(field, format!("has {count} entries; at most {ITEMS_MAX} are allowed")));
    }
    Ok(())
}
