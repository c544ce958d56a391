//! `/v1/dead`: dead letters.

use axum::http::Method;
use bursar::{Act, JobState};
use serde_json::json;

use crate::call::{Ask, Nothing};
use crate::principal::table::Action;
use crate::reply::Reply;
use crate::route::{Repeats, Route};
use crate::routes::jobs::{ListQuery, act_on_many, listed};
use crate::wire::Page;
use crate::wire::job::JobAnswer;
use crate::wire::problem::Problem;
use crate::wire::work::{ActedAnswer, SelectionBody};

pub(super) fn routes() -> Vec<Route> {
    let act = Action::JobsOperate;
    let example = |to| json!({ "filter": { "queue": "media" }, "to": to, "reason": "provider is back" });
    let list = Route::new(Method::GET, "/v1/dead", Action::JobsRead, "Dead letters", list);
    let acts = vec![
        Route::new(Method::POST, "/v1/dead/retry", act, "Try dead letters again", retry).example(example(None)),
        Route::new(Method::POST, "/v1/dead/discard", act, "Dead letters are not wanted any more", discard)
            .example(example(None)),
        Route::new(
            Method::POST,
            "/v1/dead/move",
            act,
            "Put dead letters in another queue, where they are tried again",
            move_to,
        )
        .example(example(Some("slow"))),
    ];
    acts.into_iter().map(|route| route.repeats(Repeats::State)).chain([list]).collect()
}

async fn list(ask: Ask<(), ListQuery>) -> Result<Reply<Page<JobAnswer>>, Problem> {
    if ask.query.state.is_some() {
        return Err(Problem::invalid("state".into(), "state is dead here: leave it out"));
    }
    listed(&ask.call, ask.query, Some(JobState::Dead)).await
}

async fn retry(ask: Ask<(), Nothing, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(ask.call, Act::Retry, ask.body, Some(JobState::Dead)).await
}

async fn discard(ask: Ask<(), Nothing, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    act_on_many(ask.call, Act::Discard, ask.body, Some(JobState::Dead)).await
}

async fn move_to(ask: Ask<(), Nothing, SelectionBody>) -> Result<Reply<ActedAnswer>, Problem> {
    let queue = ask.body.to.clone().ok_or_else(|| Problem::invalid("to".into(), "to says which queue"))?;
    act_on_many(ask.call, Act::Move { queue }, ask.body, Some(JobState::Dead)).await
}
