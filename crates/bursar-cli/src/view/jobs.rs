//! Jobs and their attempts.

use bursar::notation::about;
use bursar::{JobState, Payload, Time};
use bursar_wire::Page;
use bursar_wire::job::{AttemptAnswer, CostAnswer, FinishedAnswer, JobAnswer, ProgressAnswer};
use bursar_wire::problem::Problem;

use crate::context::Context;
use crate::moment::moment;
use crate::output::{cell, table};
use crate::units::Units;

/// Prints a page of jobs.
pub(crate) fn print_page(page: &Page<JobAnswer>, context: &Context) -> Result<(), Problem> {
    context.out.data(page, || {
        let rows = page.items.iter().map(|job| {
            vec![
                job.id.to_string(),
                job.queue.to_string(),
                job.kind.to_string(),
                job.state.to_string(),
                job.attempts.to_string(),
                when(job),
                job.error.as_ref().map_or("-".to_owned(), |error| error.kind.clone()),
            ]
        });
        table(&["JOB", "QUEUE", "KIND", "STATE", "ATTEMPTS", "WHEN", "ERROR"], &rows.collect::<Vec<_>>())
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

/// Returns when the lease expires, or else when the job is due.
fn when(job: &JobAnswer) -> String {
    match job.state {
        JobState::Leased => moment(job.lease.as_ref().and_then(|lease| lease.expires_at.as_ref())),
        _ => moment(job.run_at.as_ref()),
    }
}

/// Returns what the instant of [`when`] is.
fn when_label(state: JobState) -> &'static str {
    match state {
        JobState::Leased => "expires",
        state if state.is_final() => "ended",
        _ => "ready",
    }
}

/// Prints a job, and if it is the job of now, the outcome of each attempt.
pub(crate) async fn print_job(job: &JobAnswer, at: Option<&str>, context: &Context) -> Result<(), Problem> {
    let attempts = match at {
        None => context.client.jobs().attempts(job.id).await?.into_inner().items,
        Some(_) => Vec::new(),
    };
    let units = Units::read(job.cost.iter().map(|cost| &cost.scope), context).await?;
    let mut answer = serde_json::to_value(job).unwrap_or_default();
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("history".into(), serde_json::to_value(&attempts).unwrap_or_default());
    }
    context.out.data(&answer, || {
        let lease = job.lease.as_ref();
        let lease = lease.map(|lease| {
            format!("fence {} by {}, expires {}", lease.fence, lease.worker, moment(lease.expires_at.as_ref()))
        });
        let most = job.max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
        let cost =
            job.cost.iter().map(|CostAnswer { scope, amount }| format!("{} on {scope}", units.show(scope, *amount)));
        let mut lines = vec![
            format!("job       {}", job.id),
            format!("state     {}", job.state),
            format!("queue     {}", job.queue),
            format!("kind      {}", job.kind),
            format!("payload   {}", shown(&job.payload)),
            format!("priority  {}", job.priority),
            format!("attempts  {}{most}", job.attempts),
            format!("enqueued  {}", moment(job.enqueued_at.as_ref())),
            format!("{:<9} {}", when_label(job.state), when(job)),
            format!("lease     {}", cell(lease)),
            format!("hold      {}", cell(job.hold)),
            format!("cost      {}", cell(Some(cost.collect::<Vec<_>>().join(", ")).filter(|cost| !cost.is_empty()))),
            format!("result    {}", shown(&job.result)),
        ];
        lines.extend(job.progress.as_ref().map(|report| format!("progress  {}", progress(report))));
        lines.extend(job.checkpoint.as_ref().map(|checkpoint| format!("checkpoint {}", shown(checkpoint))));
        lines.extend(job.blobs.iter().map(|blob| format!("blob      {blob}")));
        lines.extend(attempts.iter().map(attempt));
        lines.join("\n")
    })
}

/// Returns the JSON of a payload, or that it was erased.
pub(crate) fn shown(payload: &Payload) -> &str {
    if payload.is_erased() { "(erased)" } else { payload.as_str() }
}

/// Describes the last progress report: `40 % rendering {"frame":1200}, 3 minutes ago, under fence 17`.
fn progress(report: &ProgressAnswer) -> String {
    let percent = report.percent.map(|percent| format!("{percent} %"));
    let data = Some(report.data.as_str().to_owned()).filter(|data| data != "null");
    let said: Vec<String> = [percent, report.message.clone(), data].into_iter().flatten().collect();
    format!("{}, {}, under fence {}", cell(Some(said.join(" "))), moment(report.at.as_ref()), report.fence)
}

fn attempt(attempt: &AttemptAnswer) -> String {
    let AttemptAnswer { attempt: number, worker, began_at, ended_at, end, error, .. } = attempt;
    let outcome = match (end, error) {
        (None, _) => "running".to_owned(),
        (Some(_), Some(error)) => format!("{}: {}", error.kind, error.message),
        (Some(end), None) => end.to_string(),
    };
    let time = |text: &Option<String>| text.as_ref()?.parse::<Time>().ok();
    let took = time(began_at).zip(time(ended_at)).map(|(began, ended)| format!(", took {}", about(ended.since(began))));
    format!("attempt {number} by {worker}, began {}{}: {outcome}", moment(began_at.as_ref()), took.unwrap_or_default())
}

/// Shortens a text to fit a cell.
pub(crate) fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.chars().count() <= CHARS_MAX {
        true => text.to_owned(),
        false => text.chars().take(CHARS_MAX - 1).chain(['…']).collect(),
    }
}

/// Formats jobs after an operation on them.
pub(crate) fn finished(done: &[FinishedAnswer], units: &Units) -> String {
    let cost = |done: &FinishedAnswer| {
        let each = done.cost.iter().map(|cost| format!("{} on {}", units.show(&cost.scope, cost.amount), cost.scope));
        cell(Some(each.collect::<Vec<_>>().join(", ")).filter(|cost| !cost.is_empty()))
    };
    let rows = done.iter().map(|done| vec![done.id.to_string(), done.state.to_string(), cost(done)]);
    table(&["JOB", "STATE", "COST"], &rows.collect::<Vec<_>>())
}
