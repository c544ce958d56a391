//! Acts on many jobs: a preview, a question, and how far it is.

use std::io::{IsTerminal, Write};

use bursar::{FlowKey, JobId, JobKind, JobState, Queue, Tag};
use bursar_client::{Answered, Error, JobQuery};
use clap::Args;
use serde::Serialize;

use crate::exit::{self, Exit};
use crate::output::table;
use crate::progress::watched;
use crate::session::Session;
use bursar_server::wire::job::FinishedAnswer;
use bursar_server::wire::problem::Problem;
use bursar_server::wire::work::{ActedAnswer, EditBody, EditManyBody, FilterBody, MoveManyBody, SelectionBody};

/// Jobs that are acted on before it is told how far it is.
const STEP: usize = 500;

/// Which jobs, by what they are.
#[derive(Args, Clone, Default)]
pub(crate) struct Filter {
    /// In this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<Queue>,
    /// Of this kind; `video.*` is every kind that begins with `video.`
    #[arg(long)]
    kind: Option<JobKind>,
    /// With this flow key
    #[arg(long, value_name = "KEY")]
    flow_key: Option<FlowKey>,
    /// With this tag
    #[arg(long)]
    tag: Option<Tag>,
    /// Whose last error has this fingerprint
    #[arg(long)]
    fingerprint: Option<String>,
}

impl Filter {
    /// The question for such jobs in a state.
    pub(crate) fn query(self, state: Option<JobState>) -> JobQuery {
        let Filter { queue, kind, flow_key, tag, fingerprint } = self;
        JobQuery { queue, state, kind, key: flow_key, tag, fingerprint, ..JobQuery::default() }
    }

    /// The selection of such jobs in a state.
    fn body(self, state: Option<JobState>) -> FilterBody {
        let Filter { queue, kind, flow_key, tag, fingerprint } = self;
        FilterBody { queue, kind, key: flow_key, tag, fingerprint, state }
    }

    fn is_empty(&self) -> bool {
        let Filter { queue, kind, flow_key, tag, fingerprint } = self;
        queue.is_none() && kind.is_none() && flow_key.is_none() && tag.is_none() && fingerprint.is_none()
    }
}

/// Which jobs to act on.
#[derive(Args)]
pub(crate) struct Selection {
    /// These ones
    #[arg(value_name = "ID")]
    ids: Vec<JobId>,
    #[command(flatten)]
    filter: Filter,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Only say how many it would be
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Why, for the journal
    #[arg(long)]
    reason: Option<String>,
}

/// What an act on all jobs that match came to.
#[derive(Default, Serialize)]
struct BulkAnswer {
    matched: usize,
    done: usize,
    refused: usize,
    dry_run: bool,
}

/// What can be done to many jobs.
pub(crate) enum Deed {
    Cancel,
    Retry,
    Edit {
        priority: Option<i16>,
        delay_ms: Option<i64>,
    },
    RetryDead,
    /// Only dead ones can be discarded.
    DiscardDead,
    /// By a filter dead ones; by name those that wait too.
    MoveDead {
        to: Queue,
    },
}

impl Deed {
    fn verb(&self) -> &'static str {
        match self {
            Deed::Cancel => "cancelled",
            Deed::Retry | Deed::RetryDead => "retried",
            Deed::Edit { .. } => "edited",
            Deed::DiscardDead => "discarded",
            Deed::MoveDead { .. } => "moved",
        }
    }

    /// Does it to one.
    async fn to_one(&self, id: JobId, reason: Option<&str>, session: &Session) -> Result<FinishedAnswer, Error> {
        let jobs = session.client.jobs();
        let done = match self {
            Deed::Cancel => jobs.cancel(id, reason).await,
            Deed::Retry | Deed::RetryDead => jobs.retry(id, reason).await,
            Deed::Edit { priority, delay_ms } => {
                jobs.edit(id, &EditBody { priority: *priority, delay_ms: *delay_ms, reason: reason.map(str::to_owned) })
                    .await
            }
            Deed::DiscardDead => jobs.discard(id, reason).await,
            Deed::MoveDead { to } => jobs.move_to(id, to, reason).await,
        };
        done.map(Answered::into_inner)
    }

    /// Does it to those who match, or counts them.
    async fn to_many(&self, which: SelectionBody, session: &Session) -> Result<ActedAnswer, Error> {
        let (jobs, dead) = (session.client.jobs(), session.client.dead());
        let done = match self {
            Deed::Cancel => jobs.cancel_all(&which).await,
            Deed::Retry => jobs.retry_all(&which).await,
            Deed::Edit { priority, delay_ms } => jobs.edit_all(&EditManyBody::to(which, *priority, *delay_ms)).await,
            Deed::RetryDead => dead.retry(&which).await,
            Deed::DiscardDead => dead.discard(&which).await,
            Deed::MoveDead { to } => dead.move_to(&MoveManyBody::to(which, to.clone())).await,
        };
        done.map(Answered::into_inner)
    }
}

/// Acts on the jobs that are named, or on all that match.
pub(crate) async fn act(
    deed: &Deed,
    selection: Selection,
    state: Option<JobState>,
    session: &Session,
) -> Result<Exit, Problem> {
    let Selection { ids, filter, all, dry_run, yes, reason } = selection;
    let filters = all || !filter.is_empty();
    if ids.is_empty() != filters {
        let detail = "say which jobs: their ids, or a filter such as --queue, or --all";
        return Err(Problem::invalid("jobs".into(), detail));
    }
    if filters {
        let which = SelectionBody { filter: Some(filter.body(state)), reason, dry_run, ..SelectionBody::default() };
        return act_on_matching(deed, which, yes, session).await;
    }
    if dry_run {
        session.out.data(&BulkAnswer { matched: ids.len(), dry_run, ..BulkAnswer::default() }, || {
            format!("{} jobs would be {}", ids.len(), deed.verb())
        })?;
        return Ok(Exit::Done);
    }
    act_on(deed, &ids, reason.as_deref(), session).await
}

/// Acts on the jobs that are named.
pub(crate) async fn act_on(
    deed: &Deed,
    ids: &[JobId],
    reason: Option<&str>,
    session: &Session,
) -> Result<Exit, Problem> {
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        answers.push(deed.to_one(*id, reason, session).await);
    }
    tell(ids, answers, session)
}

/// Tells what each job became. Ends like the first that was refused, if one was.
fn tell(ids: &[JobId], answers: Vec<Result<FinishedAnswer, Error>>, session: &Session) -> Result<Exit, Problem> {
    let (mut done, mut ended) = (Vec::new(), Exit::Done);
    for (id, answer) in ids.iter().zip(answers) {
        match answer {
            Ok(finished) => done.push(finished),
            Err(error) => {
                let problem = Problem::from(error);
                if ended == Exit::Done {
                    ended = exit::of_problem(problem.kind);
                }
                if ids.len() == 1 {
                    return Err(problem);
                }
                session.out.note(&format!("{id}: {}", problem.detail));
            }
        }
    }
    session.out.data(&serde_json::json!({ "items": done }), || finished(&done))?;
    Ok(ended)
}

/// Jobs as they have become, for people.
pub(crate) fn finished(done: &[FinishedAnswer]) -> String {
    let cost = |done: &FinishedAnswer| done.cost.iter().map(|cost| cost.amount).fold(0, i64::saturating_add);
    let rows = done.iter().map(|done| vec![done.id.to_string(), done.state.to_string(), cost(done).to_string()]);
    table(&["JOB", "STATE", "COST"], &rows.collect::<Vec<_>>())
}

async fn act_on_matching(deed: &Deed, which: SelectionBody, yes: bool, session: &Session) -> Result<Exit, Problem> {
    let verb = deed.verb();
    let counting = deed.to_many(SelectionBody { dry_run: true, ..which.clone() }, session);
    let counted = watched("counting", counting).await?;
    let ActedAnswer { matched: found, more, .. } = counted;
    let mut answer = BulkAnswer { matched: found, dry_run: which.dry_run, ..BulkAnswer::default() };
    let many = format!("{}{found} job{}", if more { "more than " } else { "" }, if found == 1 { "" } else { "s" });
    if which.dry_run || found == 0 {
        session.out.data(&answer, || format!("{many} would be {verb}"))?;
        return Ok(Exit::Done);
    }
    if !yes {
        confirm(&format!("{many} will be {verb}. Go on? [y/N] "))?;
    }
    let shows = std::io::stderr().is_terminal();
    let mut cursor = None;
    loop {
        let acted = deed.to_many(SelectionBody { cursor, limit: Some(STEP), ..which.clone() }, session).await?;
        answer.done += acted.done;
        answer.refused += acted.refused;
        cursor = acted.next;
        if shows {
            let _ = write!(std::io::stderr(), "\r{} of {many} {verb}", answer.done);
        }
        if cursor.is_none() {
            break;
        }
        if !shows {
            session.out.note(&format!("{} of {many} {verb}", answer.done));
        }
    }
    if shows {
        let _ = writeln!(std::io::stderr());
    }
    if answer.refused > 0 {
        session.out.note(&format!("{} changed meanwhile and were left as they are", answer.refused));
    }
    session.out.data(&answer, || format!("{} {verb}", answer.done))?;
    Ok(Exit::Done)
}

/// Asks whether to go on. Nobody is asked who cannot see the question.
fn confirm(question: &str) -> Result<(), Problem> {
    let told = |detail: &str| Problem::invalid("yes".into(), detail);
    if !std::io::stdin().is_terminal() {
        return Err(told("nobody is there to be asked: look with --dry-run, then say --yes"));
    }
    let _ = write!(std::io::stderr(), "{question}");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|error| told(&format!("no answer was read: {error}")))?;
    match answer.trim() {
        "y" | "yes" => Ok(()),
        _ => Err(told("nothing was done")),
    }
}
