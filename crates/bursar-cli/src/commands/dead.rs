//! `bursar dead`.

use std::collections::BTreeMap;

use bursar::{Act, Job, JobFilter, JobId, JobState, Queue};
use clap::Subcommand;
use serde::Serialize;

use crate::commands::bulk::{self, Filter, Selection};
use crate::commands::job;
use crate::exit::Exit;
use crate::output::table;
use crate::session::Session;
use bursar_server::wire::job::ErrorAnswer;
use bursar_server::wire::problem::{Kind, Problem};

/// What can be done with dead letters.
#[derive(Subcommand)]
pub(crate) enum Dead {
    /// Dead jobs, first enqueued first
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        page: job::PageArgs,
    },
    /// Their errors, the same ones together
    Groups {
        #[command(flatten)]
        filter: Filter,
    },
    /// A dead job, with the error of every attempt
    Show {
        /// Which one
        id: JobId,
    },
    /// Try them again from the first attempt
    Retry(Selection),
    /// They are not wanted any more
    Discard(Selection),
    /// Put them in another queue, where they are tried again
    Move {
        /// Which queue
        #[arg(long, value_name = "QUEUE")]
        to: Queue,
        #[command(flatten)]
        selection: Selection,
    },
}

/// Does what was asked for.
pub(crate) async fn run(args: Dead, session: &Session) -> Result<Exit, Problem> {
    let dead = Some(JobState::Dead);
    match args {
        Dead::List { filter, page } => job::list(&filter.in_state(dead), &page, session).await?,
        Dead::Groups { filter } => groups(&filter.in_state(dead), session).await?,
        Dead::Show { id } => {
            let found = job::find(id, session).await?;
            if found.life.state != JobState::Dead {
                let detail = format!("{id} is {}, not dead", found.life.state);
                return Err(Problem::new(Kind::Conflict, detail));
            }
            job::show(&found, session).await?;
        }
        Dead::Retry(selection) => return bulk::act(Act::Retry, "retried", selection, dead, session).await,
        Dead::Discard(selection) => return bulk::act(Act::Discard, "discarded", selection, dead, session).await,
        Dead::Move { to, selection } => {
            return bulk::act(Act::Move { queue: to }, "moved", selection, dead, session).await;
        }
    }
    Ok(Exit::Done)
}

/// Dead jobs that are looked at to group their errors.
const LOOKED_AT_MAX: usize = 100_000;
const PAGE: usize = 1_000;

/// Dead jobs with the same last error.
#[derive(Serialize)]
struct GroupAnswer {
    #[serde(flatten)]
    error: ErrorAnswer,
    count: usize,
    /// The one that was enqueued first.
    first: JobId,
    /// The one that was enqueued last.
    last: JobId,
}

async fn groups(filter: &JobFilter, session: &Session) -> Result<(), Problem> {
    let mut groups: BTreeMap<String, GroupAnswer> = BTreeMap::new();
    let (mut after, mut seen) = (None, 0);
    loop {
        let page = session.bursar.jobs().list(filter, after, PAGE).await?;
        page.iter().for_each(|job| add(&mut groups, job));
        seen += page.len();
        after = page.last().map(|job| job.id);
        if page.len() < PAGE {
            break;
        }
        if seen >= LOOKED_AT_MAX {
            session.out.note(&format!("only the first {seen} dead jobs were looked at: say --queue or --kind"));
            break;
        }
    }
    let mut groups: Vec<GroupAnswer> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    session.out.data(&serde_json::json!({ "items": groups, "next": null }), || {
        let rows = groups.iter().map(|group| {
            let error = &group.error;
            vec![group.count.to_string(), error.fingerprint.clone(), error.kind.clone(), job::short(&error.message)]
        });
        table(&["COUNT", "FINGERPRINT", "ERROR", "MESSAGE"], &rows.collect::<Vec<_>>())
    })
}

fn add(groups: &mut BTreeMap<String, GroupAnswer>, job: &Job) {
    let Some(error) = job.life.error.as_ref().map(ErrorAnswer::from) else { return };
    let fresh = || GroupAnswer { error: error.clone(), count: 0, first: job.id, last: job.id };
    let group = groups.entry(error.fingerprint.clone()).or_insert_with(fresh);
    group.count += 1;
    group.last = job.id;
}
