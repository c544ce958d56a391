//! `/v1/journal`, `/v1/events` and `/v1/verify`.

use axum::http::Method;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::call::Ask;
use crate::events::{self, EventsQuery};
use crate::principal::table::Action;
use crate::reply::{EventStream, Reply};
use crate::route::Route;
use crate::routes::page_size;
use crate::wire::Page;
use crate::wire::event::EventAnswer;
use crate::wire::problem::Problem;
use crate::wire::report::VerifyAnswer;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/journal", Action::JournalRead, "What happened, in the order of commits", read),
        Route::new(
            Method::GET,
            "/v1/events",
            Action::EventsListen,
            "Listen to what happens, as server-sent events",
            listen,
        )
        .waits(),
        Route::new(
            Method::GET,
            "/v1/verify",
            Action::Verify,
            "Check that balances are what holds and postings say",
            verify,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JournalQuery {
    /// After this position.
    #[serde(default)]
    after: Option<u64>,
    /// The same, as `next` of the last page said it.
    #[serde(default)]
    cursor: Option<u64>,
    /// Only of this thing, such as `job:job_…` or `scope:room:sales`.
    #[serde(default)]
    stream: Option<String>,
    /// Only of this kind, such as `job.succeeded`.
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
}

async fn read(ask: Ask<(), JournalQuery>) -> Result<Reply<Page<EventAnswer>>, Problem> {
    let JournalQuery { after, cursor, stream, kind, limit } = ask.query;
    if after.is_some() && cursor.is_some() {
        return Err(Problem::invalid("after".into(), "say either after or cursor"));
    }
    let after = after.or(cursor).unwrap_or(0);
    let (events, at) = ask.call.bursar().journal().read(after, page_size(limit)?).await?;
    let events = events.iter().map(EventAnswer::from);
    let wanted = |event: &EventAnswer| {
        stream.as_ref().is_none_or(|stream| event.is_of(stream)) && kind.as_ref().is_none_or(|kind| event.kind == *kind)
    };
    // The end is reached when the position does not move.
    Ok(Reply::new(Page { items: events.filter(wanted).collect(), next: (at > after).then(|| at.to_string()) }))
}

async fn listen(ask: Ask<(), EventsQuery>) -> Result<EventStream, Problem> {
    events::listen(ask.call, ask.query).await
}

async fn verify(ask: Ask) -> Result<Reply<VerifyAnswer>, Problem> {
    Ok(Reply::new(VerifyAnswer::from(&ask.call.app.bursar.verify().await?)))
}
