//! `bursar dead`.

use std::collections::BTreeMap;

use bursar::{JobId, JobState, Queue};
use bursar_client::JobQuery;
use bursar_wire::job::{ErrorAnswer, JobAnswer};
use bursar_wire::problem::{Kind, Problem};
use clap::Subcommand;
use serde::Serialize;

use crate::args::JobPage;
use crate::bulk::{self, BulkAction, Filter, Selection};
use crate::context::Context;
use crate::exit::Exit;
use crate::output::table;
use crate::suggest;
use crate::view::jobs;

/// The subcommands of `bursar dead`.
#[derive(Subcommand)]
pub(crate) enum Dead {
    /// List dead jobs, oldest first
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        page: JobPage,
    },
    /// Group dead jobs by their last error
    Groups {
        #[command(flatten)]
        filter: Filter,
    },
    /// Show a dead job and the error of each attempt
    Show {
        /// Job id
        id: JobId,
    },
    /// Retry dead jobs, starting again at the first attempt
    Retry(Selection),
    /// Discard dead jobs
    Discard(Selection),
    /// Move dead jobs to another queue and retry them there
    Move {
        /// Destination queue
        #[arg(long, value_name = "QUEUE")]
        to: Queue,
        #[command(flatten)]
        selection: Selection,
    },
}

/// Runs the command.
pub(crate) async fn run(args: Dead, context: &Context) -> Result<Exit, Problem> {
    match args {
        Dead::List { filter, page } => {
            let found = context.client.dead().list(&page.of(filter.clone().query(None))).await?;
            jobs::print_page(&found, context)?;
            if found.items.is_empty() {
                suggest::note_empty_filter(filter.queue(), filter.kind(), context).await;
            }
        }
        Dead::Groups { filter } => groups(filter.query(None), context).await?,
        Dead::Show { id } => {
            let found = context.client.jobs().show(id).await?;
            if found.state != JobState::Dead {
                let detail = format!("{id} is {}, not dead; show it with `bursar job show {id}`", found.state);
                return Err(Problem::new(Kind::Conflict, detail));
            }
            jobs::print_job(&found, context).await?;
        }
        Dead::Retry(selection) => return bulk::act(&BulkAction::RetryDead, selection, None, context).await,
        Dead::Discard(selection) => return bulk::act(&BulkAction::DiscardDead, selection, None, context).await,
        Dead::Move { to, selection } => return bulk::act(&BulkAction::MoveDead { to }, selection, None, context).await,
    }
    Ok(Exit::Done)
}

/// The most dead jobs that are read to group their errors.
const READ_MAX: usize = 100_000;
const PAGE: usize = 1_000;

/// The dead jobs with one last error.
#[derive(Serialize)]
struct GroupAnswer {
    #[serde(flatten)]
    error: ErrorAnswer,
    count: usize,
    /// The oldest job.
    first: JobId,
    /// The newest job.
    last: JobId,
}

async fn groups(query: JobQuery, context: &Context) -> Result<(), Problem> {
    let mut groups: BTreeMap<String, GroupAnswer> = BTreeMap::new();
    let (mut query, mut seen) = (JobQuery { limit: Some(PAGE), ..query }, 0);
    loop {
        let page = context.client.dead().list(&query).await?.into_inner();
        page.items.iter().for_each(|job| add(&mut groups, job));
        seen += page.items.len();
        if page.next.is_none() {
            break;
        }
        query.cursor = page.next;
        if seen >= READ_MAX {
            context.out.note(&format!(
                "only the oldest {seen} dead jobs were grouped; narrow the selection with --queue or --kind"
            ));
            break;
        }
    }
    let mut groups: Vec<GroupAnswer> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    context.out.data(&serde_json::json!({ "items": groups, "next": null }), || {
        let rows = groups.iter().map(|group| {
            let error = &group.error;
            vec![
                group.count.to_string(),
                error.fingerprint.clone(),
                error.kind.clone(),
                jobs::shortened(&error.message),
            ]
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
