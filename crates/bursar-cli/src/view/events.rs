//! Events of the journal.

use bursar_wire::Page;
use bursar_wire::event::EventAnswer;
use bursar_wire::problem::Problem;
use bursar_wire::window::{LimitBody, WindowFields};
use serde_json::Value;

use crate::context::Context;
use crate::output::{cell, table};

/// Prints the history of one object.
pub(crate) fn print_history(items: Vec<EventAnswer>, context: &Context) -> Result<(), Problem> {
    let page = Page { items, next: None };
    context.out.data(&page, || table_of(&page.items))
}

/// Formats events as a table.
pub(crate) fn table_of(events: &[EventAnswer]) -> String {
    let rows = events.iter().map(|event| {
        vec![
            event.position.to_string(),
            cell(event.at.as_ref()),
            event.kind.to_string(),
            event.stream.id.clone(),
            details(event),
        ]
    });
    table(&["POSITION", "AT", "KIND", "STREAM", "DETAILS"], &rows.collect::<Vec<_>>())
}

/// Summarizes the data of an event, with its reason in parentheses.
fn details(event: &EventAnswer) -> String {
    let summary = summary(&event.kind, &event.data);
    match &event.reason {
        Some(reason) if summary.is_empty() => format!("({reason})"),
        Some(reason) => format!("{summary} ({reason})"),
        None => summary,
    }
}

fn summary(kind: &str, data: &Value) -> String {
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
        "hold.expired" => format!("expired at {}", word("at")),
        "hold.extended" => format!("until {}", word("expires_at")),
        "spend.posted" => format!("{} spent", charges("amount")),
        "spend.credited" => format!("{} credited", data["charge"]["amount"]),
        "budget.defined" => limits(&data["budget"]["limits"]),
        "budget.tripped" => format!("spent {} of {} over {}", word("spent"), word("limit"), window()),
        "budget.crossed" => {
            format!("reached {} % of {} over {}: {}", word("percent"), word("limit"), window(), word("spent"))
        }
        "budget.cleared" => format!("below {} % over {}", word("percent"), window()),
        "grant.minted" => format!("{} for {}", word("purpose"), word("subject")),
        "grant.redeemed" => word("purpose"),
        "job.enqueued" => {
            let spec = |field: &str| data["spec"][field].as_str().unwrap_or_default();
            format!("{} in {}", spec("kind"), spec("queue"))
        }
        "job.leased" => format!("attempt {} by {}, fence {}", word("attempt"), word("worker"), word("fence")),
        "job.failed" | "job.rescued" => {
            let error = |field: &str| data["error"][field].as_str().unwrap_or_default();
            format!("{}: {}", error("kind"), error("message"))
        }
        "job.snoozed" => format!("until {}", word("run_at")),
        "job.parked" => format!("awaits budget on {}", word("scope")),
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
