//! `bursar journal`.

use bursar::Scope;
use bursar_client::JournalQuery;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::args::{Global, Most};
use crate::exit::Exit;
use crate::output::{Output, cell, table};
use crate::session::Session;
use bursar_server::wire::Page;
use bursar_server::wire::event::EventAnswer;
use bursar_server::wire::problem::Problem;
use bursar_server::wire::window::{LimitBody, WindowFields};

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
    #[command(flatten)]
    most: Most,
    /// Only those of one thing: hold_…, grant_…, job_…, cmd_… or scope:NAME (all that moved it)
    #[arg(long, value_name = "ID", value_parser = thing)]
    stream: Option<String>,
    /// Only those of one kind: hold.placed; a first word such as hold stands for all of hold.…
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
}

fn thing(text: &str) -> Result<String, bursar::Invalid> {
    let known = match text.strip_prefix("scope:") {
        Some(scope) => Scope::new(scope).map(|_| true)?,
        None => {
            text.parse::<bursar::HoldId>().is_ok()
                || text.parse::<bursar::GrantId>().is_ok()
                || text.parse::<bursar::JobId>().is_ok()
                || text.parse::<bursar::CommandId>().is_ok()
        }
    };
    match known {
        true => Ok(text.to_owned()),
        false => Err(bursar::Invalid::new("stream", "must be hold_…, grant_…, job_…, cmd_… or scope:NAME")),
    }
}

/// Does what was asked for.
pub(crate) async fn run(args: Journals, session: &Session) -> Result<(), Problem> {
    match args {
        Journals::List(list) => {
            let page = read(list, session).await?;
            session.out.data(&page, || lines(&page.items))?;
            session.out.more(page.next.as_deref());
            Ok(())
        }
        Journals::Query => unreachable!("the query needs no database"),
    }
}

/// As many as are wanted, from as many pages as that takes.
async fn read(list: List, session: &Session) -> Result<Page<EventAnswer>, Problem> {
    let most = usize::from(list.most);
    let mut query = JournalQuery { after: list.after, stream: list.stream, kind: list.kind, limit: Some(1_000) };
    let mut items = Vec::new();
    loop {
        let page = session.client.journal().read(&query).await?.into_inner();
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

/// Prints what happened to one thing, newest first.
pub(crate) fn show(items: Vec<EventAnswer>, session: &Session) -> Result<(), Problem> {
    let page = Page { items, next: None };
    session.out.data(&page, || lines(&page.items))
}

/// Events for people.
pub(crate) fn lines(events: &[EventAnswer]) -> String {
    let rows = events.iter().map(|event| {
        vec![
            event.position.to_string(),
            cell(event.at.as_ref()),
            event.kind.to_string(),
            event.stream.id.clone(),
            told(event),
        ]
    });
    table(&["POSITION", "AT", "KIND", "STREAM", "WHAT"], &rows.collect::<Vec<_>>())
}

/// What happened, in a few words.
fn told(event: &EventAnswer) -> String {
    let what = what(&event.kind, &event.data);
    match &event.reason {
        Some(reason) if what.is_empty() => format!("({reason})"),
        Some(reason) => format!("{what} ({reason})"),
        None => what,
    }
}

fn what(kind: &str, data: &Value) -> String {
    let word = |field: &str| match &data[field] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let window = || {
        let fields = serde_json::from_value::<WindowFields>(data.clone()).unwrap_or_default();
        fields.shown(data["limit"].as_i64())
    };
    let charges = |amount: &str| {
        let each = data["charges"].as_array().into_iter().flatten().map(|charge| {
            let amount = charge[amount].as_i64().or_else(|| charge["amount"].as_i64()).unwrap_or_default();
            format!("{amount} on {}", charge["scope"].as_str().unwrap_or_default())
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let flag = |field: &str, words: &str| if data[field] == true { words.to_owned() } else { String::new() };
    match kind {
        "hold.placed" => format!("{} held", charges("amount")),
        "hold.committed" => format!("{} spent{}", charges("actual"), flag("late", ", late")),
        "hold.released" => format!("{} freed", charges("amount")),
        "hold.expired" => format!("at {}", word("at")),
        "hold.extended" => format!("until {}", word("expires_at")),
        "spend.posted" => format!("{} spent", charges("amount")),
        "spend.credited" => format!("{} given back", data["charge"]["amount"]),
        "budget.defined" => limits(&data["budget"]["limits"]),
        "budget.tripped" => format!("{} of {} over {}", word("spent"), word("limit"), window()),
        "budget.crossed" => {
            format!("{} % of {} over {}: {}", word("percent"), word("limit"), window(), word("spent"))
        }
        "budget.cleared" => format!("below {} % over {}", word("percent"), window()),
        "grant.minted" => format!("{} for {}", word("purpose"), word("subject")),
        "grant.redeemed" => word("purpose"),
        "job.enqueued" => {
            let spec = |field: &str| data["spec"][field].as_str().unwrap_or_default();
            format!("{} in {}", spec("kind"), spec("queue"))
        }
        "job.leased" => format!("attempt {} by {}, lease {}", word("attempt"), word("worker"), word("fence")),
        "job.failed" | "job.rescued" => {
            let error = |field: &str| data["error"][field].as_str().unwrap_or_default();
            format!("{}: {}", error("kind"), error("message"))
        }
        "job.snoozed" => format!("until {}", word("run_at")),
        "job.parked" => format!("waits for {}", word("scope")),
        "job.moved" => format!("to {}", word("queue")),
        "job.edited" => format!("priority {}, not before {}", word("priority"), word("run_at")),
        "job.billed" => format!("{} spent{}", charges("amount"), flag("lost", " under a lost lease")),
        "queue.defined" if data["config"]["paused"] == true => "paused".to_owned(),
        _ => String::new(),
    }
}

fn limits(limits: &Value) -> String {
    let limits = serde_json::from_value::<Vec<LimitBody>>(limits.clone()).unwrap_or_default();
    limits.iter().map(|limit| format!("{} over {}", limit.amount, limit.shown())).collect::<Vec<_>>().join(", ")
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
