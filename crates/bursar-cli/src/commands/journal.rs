//! `bursar journal`.

use bursar::{Charged, Event, JournalEvent, Scope, Stream};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::Global;
use crate::exit::Exit;
use crate::output::{Output, table};
use crate::session::Session;
use bursar_server::wire::Page;
use bursar_server::wire::event::{EventAnswer, stream_id};
use bursar_server::wire::problem::Problem;

/// What can be done with the journal.
#[derive(Subcommand)]
pub(crate) enum Journals {
    /// Events in order
    List(List),
    /// Print a query that shows events readable, for the engine of the database
    Query,
}

/// Which events.
#[derive(Args)]
pub(crate) struct List {
    /// Only those after this position
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    most: u16,
    /// Only those of one thing: hold_…, grant_…, job_…, cmd_… or scope:NAME (all that moved it)
    #[arg(long, value_name = "ID", value_parser = thing)]
    stream: Option<Thing>,
    /// Only those of one kind: hold.placed; a first word such as hold stands for all of hold.…
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
}

/// The thing whose events are wanted.
#[derive(Clone, Debug)]
pub(crate) enum Thing {
    Scope(Scope),
    Id(String),
}

fn thing(text: &str) -> Result<Thing, bursar::Invalid> {
    if let Some(scope) = text.strip_prefix("scope:") {
        return Ok(Thing::Scope(Scope::new(scope)?));
    }
    let known = text.parse::<bursar::HoldId>().is_ok()
        || text.parse::<bursar::GrantId>().is_ok()
        || text.parse::<bursar::JobId>().is_ok()
        || text.parse::<bursar::CommandId>().is_ok();
    if known {
        return Ok(Thing::Id(text.to_owned()));
    }
    Err(bursar::Invalid::new("stream", "must be hold_…, grant_…, job_…, cmd_… or scope:NAME"))
}

impl List {
    fn wants(&self, event: &JournalEvent) -> bool {
        let kind = event.event.kind();
        let of_kind = self
            .kind
            .as_deref()
            .is_none_or(|wanted| kind == wanted || kind.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.')));
        let of_thing = match &self.stream {
            None => true,
            Some(Thing::Id(id)) => event.stream.to_string() == *id || event.command.to_string() == *id,
            Some(Thing::Scope(scope)) => {
                matches!(&event.stream, Stream::Scope(_, own) if own == scope) || event.event.scopes().contains(&scope)
            }
        };
        of_kind && of_thing
    }
}

/// Does what was asked for.
pub(crate) async fn run(args: Journals, session: &Session) -> Result<(), Problem> {
    match args {
        Journals::List(list) => {
            let most = usize::from(list.most);
            let (events, next) = read(&list, most, session).await?;
            let page = Page { items: events.iter().map(EventAnswer::from).collect(), next };
            session.out.data(&page, || lines(&events))?;
            if let Some(next) = &page.next {
                session.out.note(&format!("there may be more: --after {next}"));
            }
            Ok(())
        }
        Journals::Query => unreachable!("the query needs no database"),
    }
}

async fn read(list: &List, most: usize, session: &Session) -> Result<(Vec<JournalEvent>, Option<String>), Problem> {
    let (mut events, mut after) = (Vec::new(), list.after);
    loop {
        let (page, at) = session.bursar.journal().read(after, 1_000).await?;
        let ended = at == after;
        for event in page.into_iter().filter(|event| list.wants(event)) {
            let position = event.position;
            events.push(event);
            if events.len() >= most {
                return Ok((events, Some(position.to_string())));
            }
        }
        if ended {
            return Ok((events, None));
        }
        after = at;
    }
}

/// Prints what happened to one thing, newest first.
pub(crate) async fn history(stream: &Stream, most: usize, session: &Session) -> Result<(), Problem> {
    let events = session.bursar.journal().history(stream, most).await?;
    let page = Page { items: events.iter().map(EventAnswer::from).collect(), next: None };
    session.out.data(&page, || lines(&events))
}

/// Events for people.
pub(crate) fn lines(events: &[JournalEvent]) -> String {
    let rows = events.iter().map(|event| {
        vec![
            event.position.to_string(),
            event.at.to_string(),
            event.event.kind().to_owned(),
            stream_id(&event.stream),
            told(&event.event, event.context.reason.as_deref()),
        ]
    });
    table(&["POSITION", "AT", "KIND", "STREAM", "WHAT"], &rows.collect::<Vec<_>>())
}

/// What happened, in a few words.
fn told(event: &Event, reason: Option<&str>) -> String {
    let list = |charges: &[Charged], amount: fn(&Charged) -> i64| {
        let each: Vec<String> =
            charges.iter().map(|charged| format!("{} on {}", amount(charged), charged.scope)).collect();
        each.join(", ")
    };
    let what = match event {
        Event::HoldPlaced { charges, .. } => format!("{} held", list(charges, |charged| charged.amount)),
        Event::HoldCommitted { charges, late, .. } => {
            let spent = list(charges, |charged| charged.actual.unwrap_or(charged.amount));
            format!("{spent} spent{}", if *late { ", late" } else { "" })
        }
        Event::HoldReleased { charges, .. } => format!("{} freed", list(charges, |charged| charged.amount)),
        Event::HoldExpired { at, .. } => format!("at {at}"),
        Event::HoldExtended { expires_at, .. } => format!("until {expires_at}"),
        Event::Posted { charges } => format!("{} spent", list(charges, |charged| charged.amount)),
        Event::Credited { charge, .. } => format!("{} given back", charge.amount),
        Event::BudgetDefined { budget, .. } => {
            let limits: Vec<String> =
                budget.limits.iter().map(|limit| format!("{} over {}", limit.amount, limit.window)).collect();
            limits.join(", ")
        }
        Event::BudgetTripped { window, limit, spent, .. } => format!("{spent} of {limit} over {window}"),
        Event::BudgetCrossed { window, percent, spent, limit, .. } => {
            format!("{percent} % of {limit} over {window}: {spent}")
        }
        Event::BudgetCleared { window, percent, .. } => format!("below {percent} % over {window}"),
        Event::GrantMinted { purpose, subject, .. } => format!("{purpose} for {subject}"),
        Event::GrantRedeemed { purpose, .. } => purpose.to_string(),
        Event::JobEnqueued { spec, .. } => format!("{} in {}", spec.kind, spec.queue),
        Event::JobLeased { attempt, worker, fence, .. } => format!("attempt {attempt} by {worker}, lease {fence}"),
        Event::JobFailed { error, .. } | Event::JobRescued { error, .. } => {
            format!("{}: {}", error.kind, error.message)
        }
        Event::JobSnoozed { run_at, .. } => format!("until {run_at}"),
        Event::JobParked { scope, .. } => format!("waits for {scope}"),
        Event::JobMoved { queue, .. } => format!("to {queue}"),
        Event::JobEdited { priority, run_at, .. } => format!("priority {priority}, not before {run_at}"),
        Event::JobBilled { charges, lost, .. } => {
            let spent = list(charges, |charged| charged.amount);
            format!("{spent} spent{}", if *lost { " under a lost lease" } else { "" })
        }
        Event::QueueDefined { config, .. } if config.paused => "paused".to_owned(),
        _ => String::new(),
    };
    match reason {
        Some(reason) if what.is_empty() => format!("({reason})"),
        Some(reason) => format!("{what} ({reason})"),
        None => what,
    }
}

/// Prints the documented query of the engine.
pub(crate) fn query(global: &Global) -> Result<Exit, Problem> {
    let postgres = global.config.database.url().starts_with("postgres");
    let (engine, sql) = if postgres { ("postgres", POSTGRES) } else { ("sqlite", SQLITE) };
    Output::new(global.json).data(&json!({ "engine": engine, "sql": sql }), || sql.trim_end().to_owned())?;
    Ok(Exit::Done)
}

/// One row of the journal holds the events of one transaction; this spreads them, one a row.
const SQLITE: &str = "\
-- Every event of the journal, one a row, in order. Add a WHERE on j.position to read a part of it.
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

/// Differs from SQLite in that positions are given out after the commit and stand in a table of their own.
const POSTGRES: &str = "\
-- Every event of the journal, one a row, in order. Add a WHERE on o.position to read a part of it.
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
