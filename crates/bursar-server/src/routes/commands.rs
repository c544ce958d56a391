//! `/v1/commands`: holds, redemptions and jobs in one transaction.

use axum::http::Method;
use bursar::{CommandId, Op, Receipt, Request};
use serde_json::json;

use crate::call::{Call, Input, NoFields};
use crate::convert;
use crate::otlp::enqueue::EnqueueSpan;
use crate::principal::authorize;
use crate::principal::permissions::Action;
use crate::reply::{Created, Reply};
use crate::route::Route;
use crate::routes::blobs::reach;
use crate::suggest;
use crate::wire::command::{CommandAnswer, CommandBody};
use crate::wire::problem::Problem;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/v1/commands",
            Action::CommandsSubmit,
            "Submit charges, redemptions and jobs in one transaction",
            submit,
        )
        .example(json!({
            "charges": [{ "scope": "room:sales", "amount": 50_000,
                          "limits": [{ "amount": 100_000, "window": "rolling", "length_ms": 3_600_000 }] }],
            "settle": "job",
            "jobs": [{ "queue": "media", "kind": "video.generate", "payload": { "prompt": "a harbour" },
                       "idempotency_key": "gen-7" }],
        })),
        Route::new(Method::GET, "/v1/commands/{id}", Action::CommandsRead, "Get the result of a command", show)
            .carries_payloads(),
    ]
}

async fn submit(input: Input<(), NoFields, CommandBody>) -> Result<Created<CommandAnswer>, Problem> {
    let (answer, replayed) = submit_command(&input.call, input.body).await?;
    let location = answer.id.map(|id| format!("/v1/commands/{id}"));
    Ok(Created { answer, location, replayed })
}

/// Submits a command; returns its answer and whether it is a replay.
pub(super) async fn submit_command(call: &Call, body: CommandBody) -> Result<(CommandAnswer, bool), Problem> {
    let (command, mut context, dry_run) = body.into_command(call.context.clone())?;
    // A command with jobs also needs the permission to enqueue jobs.
    if !command.jobs.is_empty() {
        authorize(&call.principal, Action::JobsEnqueue)?;
        reach::check_used(call, &command.jobs).await?;
    }
    // So does one with references.
    if !command.references.is_empty() {
        authorize(&call.principal, Action::BlobsWrite)?;
        reach::check_referenced(call, &command.references).await?;
    }
    let enqueues = !command.jobs.is_empty() && !dry_run;
    let span = enqueues.then(|| EnqueueSpan::begin(call, &mut context, &command.jobs)).flatten();
    let request = Request {
        idempotency_key: call.key.clone(),
        dry_run,
        ..Request::from(Op::Submit(command)).in_context(context)
    };
    let receipt = match call.submit(request).await {
        Ok(outcome) => Receipt::from(outcome),
        Err(problem) => return Err(suggest::scope(problem, call).await),
    };
    // A replay enqueues nothing.
    if let Some(span) = span.filter(|_| !receipt.replayed) {
        span.end(receipt.done.jobs.iter().map(|job| job.id));
    }
    Ok((convert::command_answer(&receipt, dry_run), receipt.replayed))
}

async fn show(input: Input<CommandId>) -> Result<Reply<CommandAnswer>, Problem> {
    let found = input.call.bursar().journal().command(input.parameter).await?;
    let receipt = found.ok_or_else(|| Problem::not_found(format_args!("command {}", input.parameter)))?;
    Ok(Reply::new(convert::command_answer(&receipt, false)))
}
