//! `/v1/namespaces`: the rules of namespaces of blobs. A namespace that was never configured has the default rules.

use axum::http::Method;
use bursar::{BlobOp, Fingerprint, Namespace, NamespaceConfig, Op};
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::{PageQuery, PastQuery, name_cursor, page_size};
use crate::suggest;
use crate::wire::Page;
use crate::wire::namespace::{NamespaceAnswer, NamespaceBody};
use crate::wire::problem::Problem;

pub(super) fn routes() -> Vec<Route> {
    let (read, write) = (Action::NamespacesRead, Action::NamespacesWrite);
    vec![
        Route::new(Method::GET, "/v1/namespaces", read, "List the namespaces that were configured, by name", list)
            .pages(),
        Route::new(Method::GET, "/v1/namespaces/{name}", read, "Get the rules of a namespace", show).always_there(),
        Route::new(Method::PUT, "/v1/namespaces/{name}", write, "Replace the rules of a namespace", define)
            .takes_if_match()
            .ignores(NamespaceAnswer::READ_ONLY)
            .always_there()
            .example(json!({ "bytes_max": 104_857_600, "grace_ms": 86_400_000, "unreferenced_ms": 2_592_000_000_i64 })),
    ]
}

async fn list(input: Input<(), PageQuery>) -> Result<Reply<Page<NamespaceAnswer>>, Problem> {
    let limit = page_size(input.query.limit)?;
    let after: Option<Namespace> = name_cursor(input.query.cursor.as_deref())?;
    let found = input.call.bursar().blob_records().namespaces(after.as_ref(), limit).await?;
    let full = found.len() >= limit;
    let items: Vec<_> = found.into_iter().map(|(name, row)| NamespaceAnswer::of(name, &row.config)).collect();
    Ok(Reply::new(Page::of(items, full, |namespace| namespace.name.to_string())))
}

async fn show(input: Input<Namespace, PastQuery>) -> Result<Reply<NamespaceAnswer>, Problem> {
    let Some(moment) = input.query.moment()? else { return view(&input.call, input.parameter).await };
    let config = input.call.bursar().past(moment).await?.namespace(&input.parameter).await?.unwrap_or_default();
    Ok(Reply::new(NamespaceAnswer::of(input.parameter, &config)))
}

async fn view(call: &Call, name: Namespace) -> Result<Reply<NamespaceAnswer>, Problem> {
    let config = call.bursar().blob_records().namespace(&name).await?;
    let tag = Fingerprint::of(&config);
    Ok(Reply::new(NamespaceAnswer::of(name, &config)).tagged(Some(tag)))
}

async fn define(input: Input<Namespace, NoFields, NamespaceBody>) -> Result<Reply<NamespaceAnswer>, Problem> {
    let Input { call, parameter: name, mut body, .. } = input;
    let call = call.with_reason(body.reason.take());
    let op = BlobOp::DefineNamespace { namespace: name.clone(), config: NamespaceConfig::try_from(body)? };
    match call.run(Op::Blob(op)).await {
        Ok(done) => Ok(view(&call, name).await?.replayed(done.replayed)),
        Err(problem) => Err(suggest::scope(problem, &call).await),
    }
}
