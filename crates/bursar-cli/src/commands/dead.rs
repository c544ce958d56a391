//! `bursar dead`.

use bursar::{JobId, JobState, Queue};
use bursar_wire::Page;
use bursar_wire::problem::{Kind, Problem};
use bursar_wire::report::DeadGroupAnswer;
use clap::Subcommand;

use crate::args::{CursorPage, JobPage};
use crate::bulk::{self, BulkAction, Filter, Selection};
use crate::context::Context;
use crate::exit::Exit;
use crate::moment::{distance, moment};
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
    /// Group dead jobs by queue, kind and last error
    Groups {
        /// Show only this queue
        #[arg(long, value_name = "QUEUE")]
        queue: Option<Queue>,
        #[command(flatten)]
        page: CursorPage,
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
        Dead::Groups { queue, page: CursorPage { after, most } } => {
            let page = context.client.dead().groups(queue.as_ref(), after.as_deref(), most.into()).await?;
            print_groups(&page, context)?;
        }
        Dead::Show { id } => {
            let found = context.client.jobs().show(id).await?;
            if found.state != JobState::Dead {
                let detail = format!("{id} is {}, not dead; show it with `bursar job show {id}`", found.state);
                return Err(Problem::new(Kind::Conflict, detail));
            }
            jobs::print_job(&found, None, context).await?;
        }
        Dead::Retry(selection) => return bulk::act(&BulkAction::RetryDead, selection, None, context).await,
        Dead::Discard(selection) => return bulk::act(&BulkAction::DiscardDead, selection, None, context).await,
        Dead::Move { to, selection } => return bulk::act(&BulkAction::MoveDead { to }, selection, None, context).await,
    }
    Ok(Exit::Done)
}

fn print_groups(page: &Page<DeadGroupAnswer>, context: &Context) -> Result<(), Problem> {
    context.out.data(page, || {
        let rows = page.items.iter().map(|group| {
            let DeadGroupAnswer { queue, kind, count, error, first_at, last_at } = group;
            let error_text = match error.message.as_str() {
                "" => error.kind.clone(),
                message => jobs::shortened(&format!("{}: {message}", error.kind)),
            };
            vec![
                count.to_string(),
                queue.to_string(),
                kind.to_string(),
                error_text,
                distance(Some(first_at)),
                moment(Some(last_at)),
                error.fingerprint.clone(),
            ]
        });
        table(&["COUNT", "QUEUE", "KIND", "ERROR", "FIRST", "LAST", "FINGERPRINT"], &rows.collect::<Vec<_>>())
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}
