//! `/v1/journal`, `/v1/events` and `/v1/verify`: the journal, as pages and as a stream, and the check of all balances.

use axum::http::Method;
use bursar::{JournalEvent, Stream};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::Input;
use crate::convert;
use crate::events::{self, EventsQuery};
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::{EventStream, Reply};
use crate::route::Route;
use crate::routes::page_size;
use crate::wire::Page;
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
        Route::new(Method::GET, "/v1/events", Action::EventsListen, "Stream events as server-sent events", listen)
            .waits(),
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
    /// Only events of one resource: `job:job_…`, or an id such as `hold_…` or `cmd_…`; `scope:room:sales` selects all events that
    /// changed the scope's balance.
    #[serde(default)]
    stream: Option<String>,
    /// Only events of this kind, such as `job.succeeded`; `job` selects all kinds that begin with `job.`.
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn read(input: Input<(), JournalQuery>) -> Result<Reply<Page<EventAnswer>>, Problem> {
    let JournalQuery { after, cursor, stream, kind, limit } = input.query;
    if after.is_some() && cursor.is_some() {
        return Err(Problem::invalid("after".into(), "use either after or cursor, not both"));
    }
    let after = after.or(cursor).unwrap_or(0);
    let (events, at) = input.call.bursar().journal().read(after, page_size(limit)?).await?;
    let wanted = |event: &&JournalEvent| {
        stream.as_deref().is_none_or(|stream| is_of(event, stream))
            && kind.as_deref().is_none_or(|kind| is_kind(event.event.kind(), kind))
    };
    let items = events.iter().filter(wanted).map(convert::event_answer).collect();
    // The end is reached when the position does not advance.
    Ok(Reply::new(Page { items, next: (at > after).then(|| at.to_string()) }))
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

async fn verify(input: Input) -> Result<Reply<VerifyAnswer>, Problem> {
    Ok(Reply::new(convert::verify_answer(&input.call.app.bursar.verify().await?)))
}
