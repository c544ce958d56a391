//! `bursar job`.

use bursar::JobId;
use clap::Subcommand;

use crate::output::cell;
use crate::session::Session;
use crate::wire::job::JobAnswer;
use crate::wire::problem::Problem;

/// What can be done with jobs.
#[derive(Subcommand)]
pub(crate) enum Jobs {
    /// A job as it stands
    Show {
        /// Which one
        id: JobId,
    },
}

/// Does what was asked for.
pub(crate) async fn run(args: Jobs, session: &Session) -> Result<(), Problem> {
    let Jobs::Show { id } = args;
    let job = session.bursar.jobs().find(id).await?.ok_or_else(|| Problem::not_found(format_args!("job {id}")))?;
    session.out.data(&JobAnswer::from(&job), || {
        let lines = [
            format!("job       {}", job.id),
            format!("queue     {}", job.queue),
            format!("kind      {}", job.kind),
            format!("payload   {}", job.payload.as_str()),
            format!("priority  {}", job.priority),
            format!("attempts  at most {}", job.max_attempts),
            format!("enqueued  {}", job.enqueued_at),
            format!("runs      not before {}", job.run_at),
            format!("hold      {}", cell(job.hold)),
        ];
        lines.join("\n")
    })
}
