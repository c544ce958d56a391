//! `/v1/grants`: single-use permissions.

use axum::http::Method;
use bursar::{GrantId, Op, is_credential, page};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::limits::PAGE_MAX;
use crate::principal::permissions::Action;
use crate::reply::{Created, NoContent, Reply};
use crate::route::Route;
use crate::routes::{ListOrder, PastQuery, ReasonQuery, cursor, page_size};
use crate::wire::budget::ReasonBody;
use crate::wire::grant::{GrantAnswer, MintBody, MintedAnswer};
use crate::wire::problem::Problem;
use crate::wire::{Page, millis};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/v1/grants",
            Action::GrantsWrite,
            "Create a grant; the response has its token, which is not shown again",
            mint,
        )
        .example(
            json!({ "purpose": "upload", "subject": "session-7", "payload": { "assetId": "a-1" }, "ttl_ms": 60_000 }),
        ),
        Route::new(Method::GET, "/v1/grants", Action::GrantsRead, "List grants, without their tokens", list).pages(),
        Route::new(Method::GET, "/v1/grants/{id}", Action::GrantsRead, "Get a grant, without its token", show)
            .carries_payloads(),
        Route::new(Method::DELETE, "/v1/grants/{id}", Action::GrantsWrite, "Revoke a grant", revoke),
        Route::new(
            Method::POST,
            "/v1/grants/{id}/erase",
            Action::GrantsErase,
            "Erase the payload of a grant that can no longer be redeemed",
            erase,
        )
        .example(json!({ "reason": "the customer asked for it" })),
    ]
}

async fn mint(input: Input<(), NoFields, MintBody>) -> Result<Created<MintedAnswer>, Problem> {
    let MintBody { purpose, subject, payload, ttl_ms } = input.body;
    let ttl = millis("ttl_ms", ttl_ms)?.into();
    let minted = input.call.bursar().grants().mint_with(purpose, subject, payload, ttl, input.call.key.clone()).await?;
    let location = Some(format!("/v1/grants/{}", minted.id));
    Ok(Created { answer: convert::minted_answer(&minted), location, replayed: minted.token.is_none() })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Where the page begins: `next` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// The order of the grants: `oldest` or `newest` first. Default: `oldest`.
    #[serde(default)]
    order: ListOrder,
    /// Maximum number of items, from 1 to 1000. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

async fn list(input: Input<(), ListQuery>) -> Result<Reply<Page<GrantAnswer>>, Problem> {
    let limit = page_size(input.query.limit)?;
    let bursar = input.call.bursar();
    let mark = cursor(input.query.cursor.as_deref())?;
    let found = match input.query.order {
        ListOrder::Oldest => bursar.grants().list(mark, limit).await?,
        ListOrder::Newest => bursar.grants().newest(mark, limit).await?,
    };
    let now = bursar.now().await?;
    let items: Vec<GrantAnswer> = found.iter().map(|grant| GrantAnswer::at(grant, now)).collect();
    Ok(Reply::new(Page::of(items, page::is_full(&found, limit), |grant| grant.id.to_string())))
}

async fn show(input: Input<GrantId, PastQuery>) -> Result<Reply<GrantAnswer>, Problem> {
    let bursar = input.call.bursar();
    let (found, now) = match input.query.moment()? {
        Some(moment) => {
            let past = bursar.past(moment).await?;
            (past.grant(input.parameter).await?, past.instant())
        }
        None => (bursar.grants().find(input.parameter).await?, bursar.now().await?),
    };
    let found = found.ok_or_else(|| input.query.not_found(format_args!("grant {}", input.parameter)))?;
    Ok(Reply::new(GrantAnswer::at(&found, now)))
}

async fn revoke(input: Input<GrantId, ReasonQuery>) -> Result<NoContent, Problem> {
    end(input.call.with_reason(input.query.reason), Op::Revoke { grant: input.parameter }, input.parameter).await
}

async fn erase(input: Input<GrantId, NoFields, ReasonBody>) -> Result<NoContent, Problem> {
    end(input.call.with_reason(input.body.reason), Op::EraseGrant { grant: input.parameter }, input.parameter).await
}

/// Runs an operation on a grant. Credentials are rows of the same table, and are unknown here.
async fn end(call: Call, op: Op, grant: GrantId) -> Result<NoContent, Problem> {
    if is_credential(grant) {
        return Err(Problem::not_found(format_args!("grant {grant}")));
    }
    let outcome = call.run(op).await?;
    Ok(NoContent { replayed: outcome.replayed })
}
