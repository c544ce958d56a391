//! Conversions between types of the engine and the JSON shapes of [`wire`](crate::wire).
//!
//! `bursar-wire` does not depend on the engine, so these conversions live here. The server uses them for HTTP answers, and the command
//! line for a database that it opens itself. Each function is named after the shape that it returns:
//!
//! | engine | shape | function |
//! | --- | --- | --- |
//! | [`BudgetView`](bursar::BudgetView) | [`BudgetAnswer`](crate::wire::budget::BudgetAnswer) | [`budget_answer`] |
//! | [`RefusalCount`](bursar::RefusalCount) | [`RefusalsAnswer`](crate::wire::activity::RefusalsAnswer) | [`refusals_answer`] |
//! | [`WorkerSeen`](bursar::WorkerSeen) | [`WorkerSeenAnswer`](crate::wire::activity::WorkerSeenAnswer) | [`worker_seen_answer`] |
//! | [`Receipt`](bursar::Receipt) | [`CommandAnswer`](crate::wire::command::CommandAnswer) | [`command_answer`] |
//! | [`Issued`](bursar::Issued) | [`IssuedAnswer`](crate::wire::credential::IssuedAnswer) | [`issued_answer`] |
//! | [`JournalEvent`](bursar::JournalEvent) | [`EventAnswer`](crate::wire::event::EventAnswer) | [`event_answer`] |
//! | [`Minted`](bursar::Minted) | [`MintedAnswer`](crate::wire::grant::MintedAnswer) | [`minted_answer`] |
//! | [`Attempt`](bursar::Attempt) | [`AttemptAnswer`](crate::wire::job::AttemptAnswer) | [`attempt_answer`] |
//! | [`QueueFigures`](bursar::QueueFigures) | [`QueueAnswer`](crate::wire::queue::QueueAnswer) | [`queue_answer`] |
//! | [`Standing`](bursar::meter::Standing) | [`QuotaAnswer`](crate::wire::meter::QuotaAnswer) | [`quota_answer`] |
//! | [`Standing`](bursar::meter::Standing) | [`QuotaCheckAnswer`](crate::wire::meter::QuotaCheckAnswer) | [`quota_check_answer`] |
//! | [`Report`](bursar::Report) | [`VerifyAnswer`](crate::wire::report::VerifyAnswer) | [`verify_answer`] |
//! | [`Cost`](bursar::Cost) | [`DayCostAnswer`](crate::wire::report::DayCostAnswer) | [`day_cost_answer`] |
//! | [`HeldSum`](bursar::HeldSum) | [`HeldAnswer`](crate::wire::report::HeldAnswer) | [`held_answer`] |
//! | [`DeadGroup`](bursar::DeadGroup) | [`DeadGroupAnswer`](crate::wire::report::DeadGroupAnswer) | [`dead_group_answer`] |
//!
//! [`job_filter`] goes the other way.
//!
//! Types of `bursar-core`, which the engine re-exports, have `From` implementations in `bursar-wire`. Errors convert with `?`:
//! [`bursar::Error`] implements the trait `Classify` of `bursar-core`, and `bursar-wire` turns every error that does into a
//! [`Problem`](crate::wire::problem::Problem).

mod activity;
mod blob_error;
mod budget;
mod command;
mod credential;
mod event;
mod grant;
mod job;
mod meter;
mod queue;
mod report;

pub(crate) use self::activity::ago;
pub use self::activity::{refusals_answer, worker_seen_answer};
pub(crate) use self::blob_error::blob_problem;
pub use self::budget::budget_answer;
pub use self::command::command_answer;
pub use self::credential::issued_answer;
pub use self::event::event_answer;
pub use self::grant::minted_answer;
pub use self::job::{attempt_answer, job_filter};
pub use self::meter::{quota_answer, quota_check_answer};
pub use self::queue::queue_answer;
pub use self::report::{day_cost_answer, dead_group_answer, held_answer, verify_answer};
