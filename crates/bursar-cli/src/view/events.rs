//! Events of the journal.

use bursar::{Scope, Unit};
use bursar_wire::Page;
use bursar_wire::event::EventAnswer;
use bursar_wire::problem::Problem;
use bursar_wire::window::{LimitBody, WindowFields};
use serde_json::Value;

use crate::context::Context;
use crate::output::{cell, table};
use crate::units::Units;
use crate::view::jobs::shortened;

/// Prints the history of one object.
pub(crate) async fn print_history(items: Vec<EventAnswer>, context: &Context) -> Result<(), Problem> {
    let page = Page { items, next: None };
    let units = if context.out.is_json() { Units::default() } else { Units::listed(context).await };
    context.out.data(&page, || table_of(&page.items, &units))
}

/// Formats events as a table.
pub(crate) fn table_of(events: &[EventAnswer], units: &Units) -> String {
    let rows = events.iter().map(|event| {
        vec![
            event.position.to_string(),
            cell(event.at.as_ref()),
            event.kind.to_string(),
            event.stream.id.clone(),
            details(event, units),
        ]
    });
    table(&["POSITION", "AT", "KIND", "STREAM", "DETAILS"], &rows.collect::<Vec<_>>())
}

/// Summarizes the data of an event, with its reason in parentheses.
fn details(event: &EventAnswer, units: &Units) -> String {
    let summary = summary(event, units);
    match &event.reason {
        Some(reason) if summary.is_empty() => format!("({reason})"),
        Some(reason) => format!("{summary} ({reason})"),
        None => summary,
    }
}

fn summary(event: &EventAnswer, units: &Units) -> String {
    let (kind, data) = (event.kind.as_ref(), &event.data);
    let own = Scope::new(&event.stream.id).ok().filter(|_| event.stream.kind == "scope");
    let shown = |amount: i64| match &own {
        Some(scope) => units.show(scope, amount),
        None => Unit::default().format(amount),
    };
    let amount = |field: &str| data[field].as_i64().map_or_else(|| "-".to_owned(), shown);
    let word = |field: &str| match &data[field] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let window = || {
        let fields = serde_json::from_value::<WindowFields>(data.clone()).unwrap_or_default();
        let unit = own.as_ref().map(|scope| units.of(scope).clone()).unwrap_or_default();
        fields.shown_in(data["limit"].as_i64(), &unit)
    };
    let charges = |amount: &str| {
        let each = data["charges"].as_array().into_iter().flatten().map(|charge| {
            let amount = charge[amount].as_i64().or_else(|| charge["amount"].as_i64()).unwrap_or_default();
            let scope = charge["scope"].as_str().unwrap_or_default();
            match Scope::new(scope) {
                Ok(named) => format!("{} on {scope}", units.show(&named, amount)),
                Err(_) => format!("{amount} on {scope}"),
            }
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
        "spend.credited" => format!("{} credited", shown(data["charge"]["amount"].as_i64().unwrap_or_default())),
        "budget.defined" => limits(&data["budget"]),
        "budget.tripped" => format!("spent {} of {} over {}", amount("spent"), amount("limit"), window()),
        "budget.crossed" => {
            format!("reached {} % of {} over {}: {}", word("percent"), amount("limit"), window(), amount("spent"))
        }
        "budget.would_refuse" if data["kind"] == "frozen" => "would have refused: frozen by its trip limit".to_owned(),
        "budget.would_refuse" => format!(
            "would have refused {}: {} left of {} over {}",
            amount("requested"),
            amount("available"),
            amount("limit"),
            window()
        ),
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
        "job.checkpointed" => format!("{} under fence {}", shortened(&word("checkpoint")), word("fence")),
        "job.emitted" => format!("{} {}", word("event"), shortened(&word("data"))),
        "job.snoozed" => format!("until {}", word("run_at")),
        "job.parked" => format!("awaits budget on {}", word("scope")),
        "job.moved" => format!("to {}", word("queue")),
        "job.edited" => format!("priority {}, not before {}", word("priority"), word("run_at")),
        "job.billed" => format!("{} spent{}", charges("amount"), flag("lost", " under a lost lease")),
        "blob.started" => format!("{} in {}", word("content_type"), word("namespace")),
        "blob.stored" => format!("{} bytes", word("size")),
        "blob.referenced" | "blob.released" => {
            let by = &data["by"];
            let by = by["job"].as_str().or_else(|| by["name"].as_str());
            format!("by {}", by.unwrap_or_default())
        }
        "blob.moved" => format!("to {}", word("backend")),
        "queue.defined" if data["config"]["paused"] == true => "paused".to_owned(),
        _ => String::new(),
    }
}

/// Formats the limits of a budget in the unit that it had then.
fn limits(budget: &Value) -> String {
    let decimals = budget["unit_decimals"].as_u64().and_then(|decimals| u8::try_from(decimals).ok());
    let unit = Unit::of(budget["unit"].as_str().unwrap_or_default(), budget["unit_symbol"].as_str(), decimals);
    let limits = serde_json::from_value::<Vec<LimitBody>>(budget["limits"].clone()).unwrap_or_default();
    let shown = |limit: &LimitBody| format!("{} over {}", unit.format(limit.amount), limit.shown_in(&unit));
    limits.iter().map(shown).collect::<Vec<_>>().join(", ")
}
