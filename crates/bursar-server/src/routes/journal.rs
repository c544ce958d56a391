//! `/v1/journal`, `/v1/events`, `/v1/activity` and `/v1/verify`: the journal as pages, as a stream and summed up, and the check of all
//! balances.

use axum::http::Method;
use bursar::{JournalEvent, Stream, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::{Call, Input};
use crate::convert;
use crate::events::{self, EventsQuery};
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::{EventStream, Reply};
use crate::route::Route;
use crate::routes::{ListOrder, page_size};
use crate::wire::Page;
use crate::wire::activity::ActivityAnswer;
use crate::wire::event::{EventAnswer, stream_id};
use crate::wire::problem::Problem;
use crate::wire::report::VerifyAnswer;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/journal",
            Action::JournalRead,
            "List the events of the journal in commit order",
            read,
        )
        .pages(),
        Route::new(
            Method::GET,
            "/v1/events",
            Action::EventsListen,
            "Stream events, as server-sent events or over a WebSocket",
            listen,
        )
        .waits(),
        Route::new(
            Method::GET,
            "/v1/activity",
            Action::JournalRead,
            "Get the spend of the last hour by minute, and notable events",
            activity,
        )
        .pages(),
        Route::new(Method::GET, "/v1/verify", Action::Verify, "Verify that balances match holds and postings", verify),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JournalQuery {
    /// Only events after this position. Use either `after` or `cursor`.
    #[serde(default)]
    after: Option<u64>,
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    cursor: Option<u64>,
    /// Only events of one resource: `job:job_…`, or an id such as `hold_…`, `blob_…` or `cmd_…`; `scope:room:sales` selects all events that
    /// changed the scope's balance.
    #[serde(default)]
    stream: Option<String>,
    /// Only events of this kind, such as `job.succeeded`; `job` selects all kinds that begin with `job.`.
    #[serde(default)]
    kind: Option<String>,
    /// The order of the events: `oldest` or `newest` first. Default: `oldest`. With `newest`, `cursor` is the position before which the page
    /// begins.
    #[serde(default)]
    order: ListOrder,
    /// Only events at this time or later.
    #[serde(default)]
    from: Option<String>,
    /// Only events before this time.
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

/// The positions of a period. They are some hundred more than its events, because positions follow the clock only roughly.
struct Period {
    from: Option<Time>,
    to: Option<Time>,
    /// The position after which it begins.
    after: u64,
    /// The position before which it ends; `None` for the end of the journal.
    before: Option<u64>,
}

impl Period {
    async fn of(call: &Call, from: Option<String>, to: Option<String>) -> Result<Period, Problem> {
        let parse = |text: Option<String>| text.map(|text| text.parse::<Time>()).transpose();
        let (from, to) = (parse(from)?, parse(to)?);
        let bursar = call.bursar();
        let after = match from {
            Some(from) => bursar.journal().position_at(from).await?.saturating_sub(STEP),
            None => 0,
        };
        let before = match to {
            Some(to) => Some(bursar.journal().position_at(to).await?.saturating_add(STEP)),
            None => None,
        };
        Ok(Period { from, to, after, before })
    }

    fn includes(&self, at: Time) -> bool {
        self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at < to)
    }
}

async fn read(input: Input<(), JournalQuery>) -> Result<Reply<Page<EventAnswer>>, Problem> {
    let JournalQuery { after, cursor, stream, kind, order, from, to, limit } = input.query;
    if after.is_some() && cursor.is_some() {
        return Err(Problem::invalid("after".into(), "use either after or cursor, not both"));
    }
    let limit = page_size(limit)?;
    let period = Period::of(&input.call, from, to).await?;
    let wanted = |event: &&JournalEvent| {
        period.includes(event.at)
            && stream.as_deref().is_none_or(|stream| is_of(event, stream))
            && kind.as_deref().is_none_or(|kind| is_kind(event.event.kind(), kind))
    };
    if order == ListOrder::Newest {
        if after.is_some() {
            return Err(Problem::invalid("after".into(), "use cursor with order=newest, not after"));
        }
        let (events, next) = read_back(&input.call, &period, cursor, limit, &wanted).await?;
        let items = events.iter().map(convert::event_answer).collect();
        return Ok(Reply::new(Page { items, next: next.map(|next| next.to_string()) }));
    }
    let after = after.or(cursor).unwrap_or(0).max(period.after);
    // Most events that are read are wanted, unless there is a filter.
    let step = if stream.is_some() || kind.is_some() { limit.max(STEP as usize) } else { limit };
    let (events, next) = read_on(&input.call, &period, after, (limit, step), &wanted).await?;
    let items = events.iter().map(convert::event_answer).collect();
    Ok(Reply::new(Page { items, next: next.map(|next| next.to_string()) }))
}

/// The most positions that one call searches.
const SEARCHED_MAX: u64 = 20_000;
/// Positions read at once.
const STEP: u64 = 500;

/// Reads onwards from a position, `step` events at once, until some are found or [`SEARCHED_MAX`] positions are searched. Returns at most
/// `limit` events, and the position after which the next page begins.
async fn read_on(
    call: &Call,
    period: &Period,
    after: u64,
    (limit, step): (usize, usize),
    wanted: &(dyn Fn(&&JournalEvent) -> bool + Send + Sync),
) -> Result<(Vec<JournalEvent>, Option<u64>), Problem> {
    let mut at = after;
    loop {
        let (mut events, now_at) = call.bursar().journal().read(at, step).await?;
        events.retain(|event| wanted(&event));
        // The end is reached when the position does not advance.
        let more = now_at > at && period.before.is_none_or(|before| now_at < before);
        if events.len() > limit {
            events.truncate(limit);
            let last = events.last().map(|event| event.position);
            return Ok((events, last));
        }
        if !events.is_empty() || !more || now_at - after >= SEARCHED_MAX {
            return Ok((events, more.then_some(now_at)));
        }
        at = now_at;
    }
}

/// Reads backwards from a position until `limit` events are found or [`SEARCHED_MAX`] positions are searched. Returns the events, newest
/// first, and the position before which the next page begins.
async fn read_back(
    call: &Call,
    period: &Period,
    before: Option<u64>,
    limit: usize,
    wanted: &(dyn Fn(&&JournalEvent) -> bool + Send + Sync),
) -> Result<(Vec<JournalEvent>, Option<u64>), Problem> {
    let end = call.app.bursar.health().await?.position;
    let mut before = before.unwrap_or(end + 1).min(period.before.unwrap_or(end + 1)).min(end + 1);
    let first = period.after + 1;
    let last = before.saturating_sub(SEARCHED_MAX);
    let mut found: Vec<JournalEvent> = Vec::new();
    while before > first && before > last {
        // The journal has no gaps, so a step is a range of positions.
        let from = before.saturating_sub(STEP + 1);
        let mut step = Vec::new();
        let mut at = from;
        while at + 1 < before {
            let (events, now_at) = call.bursar().journal().read(at, STEP as usize).await?;
            step.extend(events.into_iter().filter(|event| event.position < before && wanted(&event)));
            if now_at <= at {
                break;
            }
            at = now_at;
        }
        for event in step.into_iter().rev() {
            if found.len() == limit {
                return Ok((found, Some(event.position + 1)));
            }
            found.push(event);
        }
        before = from + 1;
    }
    Ok((found, (before > first).then_some(before)))
}

/// Returns whether an event belongs to a resource: `job:job_…`, an id, or `scope:NAME` for all events that changed the scope.
fn is_of(event: &JournalEvent, thing: &str) -> bool {
    let (kind, id) = thing.split_once(':').map_or((None, thing), |(kind, id)| (Some(kind), id));
    match kind {
        Some("scope") => {
            matches!(&event.stream, Stream::Scope(_, own) if own.as_str() == id)
                || event.event.scopes().iter().any(|scope| scope.as_str() == id)
        }
        Some(kind) => kind == event.stream.kind() && id == stream_id(&event.stream),
        None => id == stream_id(&event.stream) || id == event.command.to_string(),
    }
}

/// Returns whether a kind equals the wanted one, or begins with it and a dot.
fn is_kind(kind: &str, wanted: &str) -> bool {
    kind.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

async fn listen(input: Input<(), EventsQuery>) -> Result<EventStream, Problem> {
    events::listen(input.call, input.query).await
}

async fn activity(input: Input) -> Result<Reply<ActivityAnswer>, Problem> {
    let now = input.call.bursar().now().await?;
    Ok(Reply::new(input.call.app.activities.answer(&input.call.context.tenant, now).await?))
}

async fn verify(input: Input) -> Result<Reply<VerifyAnswer>, Problem> {
    Ok(Reply::new(convert::verify_answer(&input.call.app.bursar.verify().await?)))
}
