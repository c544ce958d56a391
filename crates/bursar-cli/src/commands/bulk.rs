//! Acts on many jobs: a preview, a question, and how far it is.

use std::io::{IsTerminal, Write};

use bursar::{Act, Count, Error, Finished, FlowKey, JobFilter, JobId, JobKind, JobState, Queue, Tag};
use clap::Args;
use serde::Serialize;

use crate::exit::{self, Exit};
use crate::output::table;
use crate::session::Session;
use bursar_server::wire::job::FinishedAnswer;
use bursar_server::wire::problem::Problem;

/// Jobs that a preview counts at most.
const COUNTED_MAX: usize = 1_000_000;

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
    /// The filter, for jobs in a state.
    pub(crate) fn in_state(self, state: Option<JobState>) -> JobFilter {
        let Filter { queue, kind, flow_key, tag, fingerprint } = self;
        JobFilter { queue, state, kind, key: flow_key, tag, fingerprint }
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

/// Acts on the jobs that were named or that match. `state` is the one they must be in to match.
pub(crate) async fn act(
    act: Act,
    verb: &str,
    selection: Selection,
    state: Option<JobState>,
    session: &Session,
) -> Result<Exit, Problem> {
    let Selection { ids, filter, all, dry_run, yes, reason } = selection;
    let session = &session.because(reason.as_deref());
    let filters = all || !filter.is_empty();
    if ids.is_empty() != filters {
        let detail = "say which jobs: their ids, or a filter such as --queue, or --all";
        return Err(Problem::invalid("jobs".into(), detail));
    }
    if filters {
        let filter = filter.in_state(state);
        return act_on_matching(act, verb, &filter, Bulk { dry_run, yes }, session).await;
    }
    if dry_run {
        session.out.data(&BulkAnswer { matched: ids.len(), dry_run, ..BulkAnswer::default() }, || {
            format!("{} jobs would be {verb}", ids.len())
        })?;
        return Ok(Exit::Done);
    }
    let answers = session.bursar.jobs().act(act, &ids).await?;
    tell(&ids, answers, session)
}

/// Tells what each job became. Ends like the first that was refused, if one was.
fn tell(ids: &[JobId], answers: Vec<Result<Finished, Error>>, session: &Session) -> Result<Exit, Problem> {
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
    let answers: Vec<FinishedAnswer> = done.iter().map(FinishedAnswer::from).collect();
    session.out.data(&serde_json::json!({ "items": answers }), || finished(&done))?;
    Ok(ended)
}

/// Jobs as they have become, for people.
pub(crate) fn finished(done: &[Finished]) -> String {
    let rows = done.iter().map(|done| vec![done.job.to_string(), done.state.to_string(), done.cost.to_string()]);
    table(&["JOB", "STATE", "COST"], &rows.collect::<Vec<_>>())
}

#[derive(Clone, Copy)]
struct Bulk {
    dry_run: bool,
    yes: bool,
}

async fn act_on_matching(
    act: Act,
    verb: &str,
    filter: &JobFilter,
    bulk: Bulk,
    session: &Session,
) -> Result<Exit, Problem> {
    let jobs = session.bursar.jobs();
    let Count { found, more } = jobs.count(filter, COUNTED_MAX).await?;
    let mut answer = BulkAnswer { matched: found, dry_run: bulk.dry_run, ..BulkAnswer::default() };
    let many = format!("{}{found} job{}", if more { "more than " } else { "" }, if found == 1 { "" } else { "s" });
    if bulk.dry_run || found == 0 {
        session.out.data(&answer, || format!("{many} would be {verb}"))?;
        return Ok(Exit::Done);
    }
    if !bulk.yes {
        confirm(&format!("{many} will be {verb}. Go on? [y/N] "))?;
    }
    let shows = std::io::stderr().is_terminal();
    let mut after = None;
    loop {
        let acted = jobs.act_on_page(act.clone(), filter, after).await?;
        answer.done += acted.done();
        answer.refused += acted.answers.len() - acted.done();
        after = acted.next;
        if shows {
            let _ = write!(std::io::stderr(), "\r{} of {many} {verb}", answer.done);
        }
        if after.is_none() {
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
