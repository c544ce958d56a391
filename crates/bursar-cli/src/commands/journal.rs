//! `bursar journal`.

mod archive;

use bursar::{Event, Scope};
use bursar_client::JournalQuery;
use bursar_wire::Page;
use bursar_wire::event::EventAnswer;
use bursar_wire::problem::Problem;
use clap::{Args, Subcommand};
use serde_json::json;

use self::archive::Archive;
use crate::args::{ConfiguredArgs, PageSize, whole};
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Output, counted};
use crate::units::Units;
use crate::view::events;
use bursar_wire::similar;

/// The subcommands of `bursar journal`.
#[derive(Subcommand)]
pub(crate) enum Journals {
    /// List the newest events, or those after a position; the newest event is last
    List(List),
    /// Print an SQL query that lists the events, for the configured database's engine
    Query,
    /// Move rows that are old enough to the archive that journal.archive names
    Archive(Archive),
    /// Put all archived rows back into the database, such as before `bursar move`; files stay in the archive
    Unarchive,
    /// List the segments of the archive
    Segments,
    /// Prove that no event is missing or changed: read every segment of the archive and every row of the table
    Verify,
}

/// The events to list.
#[derive(Args)]
pub(crate) struct List {
    /// List the events after this position; 0 is the beginning [default: the newest events]
    #[arg(long, value_name = "POSITION", value_parser = position, conflicts_with = "before")]
    after: Option<u64>,
    /// List the events before this position
    #[arg(long, value_name = "POSITION", value_parser = position)]
    before: Option<u64>,
    #[command(flatten)]
    most: PageSize,
    /// List only the events of one object: hold_…, grant_…, job_…, blob_…, cmd_…, queue:NAME, schedule:NAME, namespace:NAME, or scope:NAME for everything that affected it
    #[arg(long, value_name = "ID", value_parser = stream)]
    stream: Option<String>,
    /// List only one kind, such as hold.placed; a prefix such as hold selects all kinds that start with hold.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
}

fn position(text: &str) -> Result<u64, String> {
    whole(text, 0..=u64::MAX)
}

/// The streams that are named by their kind and name.
const NAMED: [&str; 3] = ["queue", "schedule", "namespace"];

fn stream(text: &str) -> Result<String, bursar::Invalid> {
    let is_id = |text: &str| {
        text.parse::<bursar::HoldId>().is_ok()
            || text.parse::<bursar::GrantId>().is_ok()
            || text.parse::<bursar::JobId>().is_ok()
            || text.parse::<bursar::BlobId>().is_ok()
            || text.parse::<bursar::CommandId>().is_ok()
    };
    let is_stream = match text.split_once(':') {
        Some(("scope", scope)) => Scope::new(scope).map(|_| true)?,
        Some((kind, name)) if NAMED.contains(&kind) => !name.is_empty(),
        Some(("command", id)) => id.parse::<bursar::CommandId>().is_ok(),
        // The prefix of an id names its kind: `job:job_…`.
        Some((kind, id)) => is_id(id) && id.starts_with(&format!("{kind}_")),
        None => is_id(text),
    };
    match is_stream {
        true => Ok(text.to_owned()),
        false => Err(bursar::Invalid::new(
            "stream",
            "must be hold_…, grant_…, job_…, blob_…, cmd_…, scope:NAME, queue:NAME, schedule:NAME or namespace:NAME",
        )),
    }
}

/// Runs the command.
pub(crate) async fn run(args: Journals, context: &Context) -> Result<(), Problem> {
    match args {
        Journals::List(list) => {
            let forward = list.after.is_some();
            let page = match forward {
                true => read_on(&list, context).await?,
                false => read_newest(&list, context).await?,
            };
            if page.items.is_empty()
                && let Some(kind) = &list.kind
            {
                require_kind(kind)?;
            }
            let units = if context.out.is_json() { Units::default() } else { Units::listed(context).await };
            context.out.data(&page, || events::table_of(&page.items, &units))?;
            match &page.next {
                Some(next) if !forward => {
                    let shown = counted(page.items.len(), "event");
                    let which = match list.before {
                        Some(before) => format!("{shown} before position {before}"),
                        None => format!("the newest {shown}"),
                    };
                    context.out.note(&format!("{which}; earlier ones: --before {next}; from the beginning: --after 0"));
                }
                next => context.out.next_page(next.as_deref()),
            }
            Ok(())
        }
        Journals::Archive(args) => archive::archive(args, context).await,
        Journals::Unarchive => archive::unarchive(context).await,
        Journals::Segments => archive::segments(context).await,
        Journals::Verify => archive::verify(context).await,
        Journals::Query => unreachable!("`Cli::run` prints the query without opening a database"),
    }
}

/// Fails if no event has this kind or prefix.
fn require_kind(kind: &str) -> Result<(), Problem> {
    let families = || Event::KINDS.iter().filter_map(|known| known.split_once('.')).map(|(family, _)| family);
    if Event::KINDS.contains(&kind) || families().any(|family| family == kind) {
        return Ok(());
    }
    let similar = similar::to(kind, Event::KINDS.iter().copied().chain(families()));
    let mut all: Vec<&str> = families().collect();
    all.dedup();
    let detail = format!(
        "{kind:?} is not a kind of event{}; pass one such as hold.placed, or a family: {}",
        similar::question(similar),
        all.join(", ")
    );
    Err(Problem::invalid("kind".into(), detail))
}

impl List {
    /// Returns the query for a page to search.
    fn query(&self) -> JournalQuery {
        JournalQuery {
            after: self.after.unwrap_or_default(),
            stream: self.stream.clone(),
            kind: self.kind.clone(),
            limit: Some(1_000),
            newest: self.after.is_none(),
            before: self.before,
            ..JournalQuery::default()
        }
    }
}

/// Reads pages onwards until enough events have matched. `next` is where to continue with `--after`.
async fn read_on(list: &List, context: &Context) -> Result<Page<EventAnswer>, Problem> {
    let (most, mut query) = (usize::from(list.most), list.query());
    let mut items = Vec::new();
    loop {
        let page = context.client.journal().read(&query).await?.into_inner();
        for event in page.items {
            let position = event.position;
            items.push(event);
            if items.len() >= most {
                return Ok(Page { items, next: Some(position.to_string()) });
            }
        }
        match page.next.and_then(|next| next.parse().ok()) {
            Some(next) => query.after = next,
            None => return Ok(Page { items, next: None }),
        }
    }
}

/// Reads pages backwards until enough events have matched, and returns these in order. `next` is where to continue with `--before`.
async fn read_newest(list: &List, context: &Context) -> Result<Page<EventAnswer>, Problem> {
    let (most, mut query) = (usize::from(list.most), list.query());
    let mut items: Vec<EventAnswer> = Vec::new();
    let next = loop {
        query.limit = Some(most - items.len());
        let page = context.client.journal().read(&query).await?.into_inner();
        items.extend(page.items);
        match page.next {
            Some(next) if items.len() < most => query.before = next.parse().ok(),
            next => break next,
        }
    };
    items.reverse();
    Ok(Page { items, next })
}

/// Prints the query for the configured database's engine.
pub(crate) fn query(global: &ConfiguredArgs) -> Result<Exit, Problem> {
    let postgres = global.config.database.url().starts_with("postgres");
    let (engine, sql) = if postgres { ("postgres", POSTGRES) } else { ("sqlite", SQLITE) };
    Output::new(global.json).data(&json!({ "engine": engine, "sql": sql }), || sql.trim_end().to_owned())?;
    Ok(Exit::Done)
}

/// A row of the journal holds the events of one transaction; the query returns one row per event.
const SQLITE: &str = "\
-- Every event of the journal, one per row, in order. Add a WHERE on j.position to read a part of it.
SELECT j.position + row_number() OVER (PARTITION BY j.position ORDER BY entry.key, event.key) - 1 AS position,
       strftime('%Y-%m-%dT%H:%M:%S', j.at / 1000000, 'unixepoch') || printf('.%06dZ', j.at % 1000000) AS at,
       json_extract(entry.value, '$.context.tenant') AS tenant,
       (SELECT key FROM json_each(event.value, '$.e')) AS kind,
       json_extract(event.value, '$.v') AS version,
       json_extract(entry.value, '$.id') AS command,
       json_extract(entry.value, '$.context.actor') AS actor,
       json_extract(entry.value, '$.context.correlation_id') AS correlation_id,
       json_extract(entry.value, '$.context.reason') AS reason,
       (SELECT value FROM json_each(event.value, '$.e')) AS data
FROM bursar_journal AS j, json_each(j.entries) AS entry, json_each(entry.value, '$.events') AS event
ORDER BY 1;
";

/// Differs from SQLite in that positions are assigned after the commit and stored in their own table.
const POSTGRES: &str = "\
-- Every event of the journal, one per row, in order. Add a WHERE on o.position to read a part of it.
SELECT o.position + row_number() OVER (PARTITION BY o.position ORDER BY entry.n, event.n) - 1 AS position,
       to_char(to_timestamp(j.at / 1e6) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS at,
       entry.value -> 'context' ->> 'tenant' AS tenant,
       (SELECT key FROM json_each(event.value -> 'e')) AS kind,
       (event.value ->> 'v')::bigint AS version,
       entry.value ->> 'id' AS command,
       entry.value -> 'context' ->> 'actor' AS actor,
       entry.value -> 'context' ->> 'correlation_id' AS correlation_id,
       entry.value -> 'context' ->> 'reason' AS reason,
       (SELECT value FROM json_each(event.value -> 'e')) AS data
FROM bursar.journal_order AS o
JOIN bursar.journal AS j ON j.id = o.id
CROSS JOIN LATERAL json_array_elements(j.entries::json) WITH ORDINALITY AS entry (value, n)
CROSS JOIN LATERAL json_array_elements(entry.value -> 'events') WITH ORDINALITY AS event (value, n)
ORDER BY 1;
";
