//! `bursar dead`.

use std::collections::BTreeMap;

use bursar::{JobId, JobState, Queue};
use bursar_client::JobQuery;
use clap::Subcommand;
use serde::Serialize;

use crate::commands::bulk::{self, Deed, Filter, Selection};
use crate::commands::job;
use crate::exit::Exit;
use crate::output::table;
use crate::session::Session;
use bursar_server::wire::job::{ErrorAnswer, JobAnswer};
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
    match args {
        Dead::List { filter, page } => {
            job::list(&*session.client.dead().list(&page.of(filter.query(None))).await?, session)?;
        }
        Dead::Groups { filter } => groups(filter.query(None), session).await?,
        Dead::Show { id } => {
            let found = session.client.jobs().show(id).await?;
            if found.state != JobState::Dead {
                let detail = format!("{id} is {}, not dead", found.state);
                return Err(Problem::new(Kind::Conflict, detail));
            }
            job::show(&found, session).await?;
        }
        Dead::Retry(selection) => return bulk::act(&Deed::RetryDead, selection, None, session).await,
        Dead::Discard(selection) => return bulk::act(&Deed::DiscardDead, selection, None, session).await,
        Dead::Move { to, selection } => return bulk::act(&Deed::MoveDead { to }, selection, None, session).await,
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

async fn groups(query: JobQuery, session: &Session) -> Result<(), Problem> {
    let mut groups: BTreeMap<String, GroupAnswer> = BTreeMap::new();
    let (mut query, mut seen) = (JobQuery { limit: Some(PAGE), ..query }, 0);
    loop {
        let page = session.client.dead().list(&query).await?.into_inner();
        page.items.iter().for_each(|job| add(&mut groups, job));
        seen += page.items.len();
        if page.next.is_none() {
            break;
        }
        query.cursor = page.next;
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

fn add(groups: &mut BTreeMap<String, GroupAnswer>, job: &JobAnswer) {
    let Some(error) = job.error.as_ref() else { return };
    let fresh = || GroupAnswer { error: error.clone(), count: 0, first: job.id, last: job.id };
    let group = groups.entry(error.fingerprint.clone()).or_insert_with(fresh);
    group.count += 1;
    group.last = job.id;
}
