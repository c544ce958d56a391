//! The commands that pages without content suggest.

/// Defines a budget.
pub(crate) const DEFINE_BUDGET: &str = "bursar budget define team --limit 25usd:month";
/// Enqueues a job.
pub(crate) const ENQUEUE_JOB: &str = "bursar job enqueue media video.generate --payload '{\"seconds\": 8}'";
/// Leases a job as a worker does.
pub(crate) const LEASE_JOB: &str = "bursar job lease --queue media";
/// Creates a schedule.
pub(crate) const SET_SCHEDULE: &str =
    "bursar schedule set nightly --cron '0 3 * * *' --queue reports --kind report.build";
/// Mints a grant.
pub(crate) const MINT_GRANT: &str = "bursar grant mint upload alice --ttl 10m";
/// Uploads a file.
pub(crate) const PUT_BLOB: &str = "bursar blob put cat.png --namespace media";
/// Creates a token.
pub(crate) const CREATE_TOKEN: &str = "bursar token create ann --role viewer";

/// The commands that pages suggest, for a test that they exist.
pub const SUGGESTED_COMMANDS: [&str; 7] =
    [DEFINE_BUDGET, ENQUEUE_JOB, LEASE_JOB, SET_SCHEDULE, MINT_GRANT, PUT_BLOB, CREATE_TOKEN];
