//! Operations on many jobs: preview, confirmation and progress.

use std::io::{IsTerminal, Write};

use bursar::{FlowKey, JobId, JobKind, JobState, Queue, Tag};
use bursar_client::{Answered, Error, JobQuery};
use bursar_wire::bulk::{ActedAnswer, EditBody, EditManyBody, FilterBody, MoveManyBody, SelectionBody};
use bursar_wire::job::FinishedAnswer;
use bursar_wire::problem::Problem;
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::exit::{self, Exit};
use crate::output::counted;
use crate::progress::with_progress;
use crate::units::Units;
use crate::view::jobs;

/// Jobs per request, and per progress line.
const STEP: usize = 500;

/// A filter for jobs.
#[derive(Args, Clone, Default)]
pub(crate) struct Filter {
    /// Select only jobs of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<Queue>,
    /// Select only jobs of this kind; `video.*` matches every kind that starts with `video.`
    #[arg(long)]
    kind: Option<JobKind>,
    /// Select only jobs with this flow key
    #[arg(long, value_name = "KEY")]
    flow_key: Option<FlowKey>,
    /// Select only jobs with this tag
    #[arg(long)]
    tag: Option<Tag>,
    /// Select only jobs whose last error has this fingerprint
    #[arg(long)]
    fingerprint: Option<String>,
}

impl Filter {
    /// Builds a query for the matching jobs in a state.
    pub(crate) fn query(self, state: Option<JobState>) -> JobQuery {
        let Filter { queue, kind, flow_key, tag, fingerprint } = self;
        JobQuery { queue, state, kind, key: flow_key, tag, fingerprint, ..JobQuery::default() }
    }

    /// Builds a request body that selects the matching jobs in a state.
    fn body(self, state: Option<JobState>) -> FilterBody {
        let Filter { queue, kind, flow_key, tag, fingerprint } = self;
        FilterBody { queue, kind, key: flow_key, tag, fingerprint, state }
    }

    /// Returns the queue to select, if any.
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.queue.as_ref()
    }

    /// Returns the kind to select, if any.
    pub(crate) fn kind(&self) -> Option<&JobKind> {
        self.kind.as_ref()
    }

    fn is_empty(&self) -> bool {
        let Filter { queue, kind, flow_key, tag, fingerprint } = self;
        queue.is_none() && kind.is_none() && flow_key.is_none() && tag.is_none() && fingerprint.is_none()
    }
}

/// The jobs to operate on: ids, a filter, or all.
#[derive(Args)]
pub(crate) struct Selection {
    /// Job ids, instead of a filter
    #[arg(value_name = "ID")]
    ids: Vec<JobId>,
    #[command(flatten)]
    filter: Filter,
    /// Select all jobs
    #[arg(long)]
    all: bool,
    /// Print how many jobs match without changing them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// The outcome of an operation on all matching jobs.
#[derive(Default, Serialize)]
struct BulkAnswer {
    matched: usize,
    done: usize,
    refused: usize,
    dry_run: bool,
}

/// An operation on many jobs.
pub(crate) enum BulkAction {
    Cancel,
    Retry,
    Erase,
    Edit {
        priority: Option<i16>,
        delay_ms: Option<i64>,
    },
    RetryDead,
    /// Only dead jobs can be discarded.
    DiscardDead,
    /// A filter selects dead jobs only; ids may name waiting jobs too.
    MoveDead {
        to: Queue,
    },
}

impl BulkAction {
    fn participle(&self) -> &'static str {
        match self {
            BulkAction::Cancel => "cancelled",
            BulkAction::Retry | BulkAction::RetryDead => "retried",
            BulkAction::Erase => "erased",
            BulkAction::Edit { .. } => "edited",
            BulkAction::DiscardDead => "discarded",
            BulkAction::MoveDead { .. } => "moved",
        }
    }

    /// Applies the operation to one job.
    async fn apply(&self, id: JobId, reason: Option<&str>, context: &Context) -> Result<FinishedAnswer, Error> {
        let jobs = context.client.jobs();
        let done = match self {
            BulkAction::Cancel => jobs.cancel(id, reason).await,
            BulkAction::Retry | BulkAction::RetryDead => jobs.retry(id, reason).await,
            BulkAction::Erase => jobs.erase(id, reason).await,
            BulkAction::Edit { priority, delay_ms } => {
                jobs.edit(id, &EditBody { priority: *priority, delay_ms: *delay_ms, reason: reason.map(str::to_owned) })
                    .await
            }
            BulkAction::DiscardDead => jobs.discard(id, reason).await,
            BulkAction::MoveDead { to } => jobs.move_to(id, to, reason).await,
        };
        done.map(Answered::into_inner)
    }

    /// Applies the operation to a page of matching jobs, or counts them.
    async fn apply_to_matching(&self, which: SelectionBody, context: &Context) -> Result<ActedAnswer, Error> {
        let (jobs, dead) = (context.client.jobs(), context.client.dead());
        let done = match self {
            BulkAction::Cancel => jobs.cancel_all(&which).await,
            BulkAction::Retry => jobs.retry_all(&which).await,
            BulkAction::Erase => jobs.erase_all(&which).await,
            BulkAction::Edit { priority, delay_ms } => {
                jobs.edit_all(&EditManyBody::to(which, *priority, *delay_ms)).await
            }
            BulkAction::RetryDead => dead.retry(&which).await,
            BulkAction::DiscardDead => dead.discard(&which).await,
            BulkAction::MoveDead { to } => dead.move_to(&MoveManyBody::to(which, to.clone())).await,
        };
        done.map(Answered::into_inner)
    }
}

/// Applies an action to the selected jobs.
pub(crate) async fn act(
    action: &BulkAction,
    selection: Selection,
    state: Option<JobState>,
    context: &Context,
) -> Result<Exit, Problem> {
    let Selection { ids, filter, all, dry_run, yes, reason } = selection;
    let filters = all || !filter.is_empty();
    if ids.is_empty() != filters {
        let detail = "pass either job ids or a filter such as --queue (--all selects all jobs); nothing was changed";
        return Err(Problem::invalid("jobs".into(), detail));
    }
    if filters {
        let which = SelectionBody { filter: Some(filter.body(state)), reason, dry_run, ..SelectionBody::default() };
        return act_on_matching(action, which, yes, context).await;
    }
    if dry_run {
        context.out.data(&BulkAnswer { matched: ids.len(), dry_run, ..BulkAnswer::default() }, || {
            format!("{} would be {}", counted(ids.len(), "job"), action.participle())
        })?;
        return Ok(Exit::Done);
    }
    act_on(action, &ids, reason.as_deref(), context).await
}

/// Applies an action to jobs by id.
pub(crate) async fn act_on(
    action: &BulkAction,
    ids: &[JobId],
    reason: Option<&str>,
    context: &Context,
) -> Result<Exit, Problem> {
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        answers.push(action.apply(*id, reason, context).await);
    }
    print_outcomes(ids, answers, context).await
}

/// Prints the outcome for each job. The exit code is that of the first refusal, if there is one.
async fn print_outcomes(
    ids: &[JobId],
    answers: Vec<Result<FinishedAnswer, Error>>,
    context: &Context,
) -> Result<Exit, Problem> {
    let (mut done, mut ended) = (Vec::new(), Exit::Done);
    for (id, answer) in ids.iter().zip(answers) {
        match answer {
            Ok(finished) => done.push(finished),
            Err(error) => {
                let problem = Problem::from(error);
                if ended == Exit::Done {
                    ended = exit::for_problem(problem.kind);
                }
                if ids.len() == 1 {
                    return Err(problem);
                }
                context.out.note(&format!("{id}: {}", problem.detail));
            }
        }
    }
    let units = Units::read(done.iter().flat_map(|done| done.cost.iter().map(|cost| &cost.scope)), context).await?;
    context.out.data(&serde_json::json!({ "items": done }), || jobs::finished(&done, &units))?;
    Ok(ended)
}

async fn act_on_matching(
    action: &BulkAction,
    which: SelectionBody,
    yes: bool,
    context: &Context,
) -> Result<Exit, Problem> {
    let participle = action.participle();
    let counting = action.apply_to_matching(SelectionBody { dry_run: true, ..which.clone() }, context);
    let ActedAnswer { matched: found, more, .. } = with_progress("counting", counting).await?;
    let mut answer = BulkAnswer { matched: found, dry_run: which.dry_run, ..BulkAnswer::default() };
    let many = format!("{}{}", if more { "more than " } else { "" }, counted(found, "job"));
    if which.dry_run || found == 0 {
        let text = match which.dry_run {
            true => format!("{many} would be {participle}, where the state allows it"),
            false => "no job matches; nothing was changed".to_owned(),
        };
        context.out.data(&answer, || text)?;
        return Ok(Exit::Done);
    }
    if !yes {
        confirm(&format!("{many} will be {participle}. Continue? [y/N] "))?;
    }
    let is_terminal = std::io::stderr().is_terminal();
    let mut cursor = None;
    loop {
        let acted =
            action.apply_to_matching(SelectionBody { cursor, limit: Some(STEP), ..which.clone() }, context).await?;
        answer.done += acted.done;
        answer.refused += acted.refused;
        cursor = acted.next;
        if is_terminal {
            let _ = write!(std::io::stderr(), "\r{} of {many} {participle}", answer.done);
        }
        if cursor.is_none() {
            break;
        }
        if !is_terminal {
            context.out.note(&format!("{} of {many} {participle}", answer.done));
        }
    }
    if is_terminal {
        let _ = writeln!(std::io::stderr());
    }
    if answer.refused > 0 {
        let refused = counted(answer.refused, "job");
        context.out.note(&format!("{refused} could not be {participle}; name one by its id to see why"));
    }
    context.out.data(&answer, || format!("{} {participle}", counted(answer.done, "job")))?;
    Ok(Exit::Done)
}

/// Asks for confirmation on a terminal.
fn confirm(question: &str) -> Result<(), Problem> {
    let declined = |detail: &str| Problem::invalid("yes".into(), detail);
    if !std::io::stdin().is_terminal() {
        return Err(declined(
            "standard input is not a terminal, so nothing was changed; preview with --dry-run, then pass --yes",
        ));
    }
    let _ = write!(std::io::stderr(), "{question}");
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| declined(&format!("the answer cannot be read ({error}); nothing was changed")))?;
    match answer.trim() {
        "y" | "yes" => Ok(()),
        _ => Err(declined("not confirmed; nothing was changed")),
    }
}
