//! The event stream of a page: the kinds of the events, so that the page knows when to load again, and the progress of jobs.

use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bursar_client::{Bytes, Request};
use futures_util::StreamExt;
use http_body_util::BodyStream;
use serde_json::{Value, json};

use crate::Shared;
use crate::failure::Failure;
use crate::visit::{Visit, encoded, query_value};

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/events", get(listen))
}

async fn listen(visit: Visit, headers: axum::http::HeaderMap) -> Result<Response, Failure> {
    let channels = query_value(&visit.uri, "channels").unwrap_or_else(|| "journal".to_owned());
    let mut request = Request::get(format!("/v1/events?channels={}", encoded(&channels)))
        .header(header::AUTHORIZATION, format!("Bearer {}", visit.token()));
    if let Some(tenant) = &visit.tenant {
        request = request.header("bursar-tenant", tenant.as_str());
    }
    if let Some(last) = headers.get("last-event-id") {
        request = request.header("last-event-id", last);
    }
    let request = request.body(Bytes::new()).map_err(|_| Failure::NoPage)?;
    let answer = visit.api.call(request, visit.caller).await;
    if !answer.status().is_success() {
        return Ok(answer.status().into_response());
    }
    let frames = BodyStream::new(answer.into_body()).filter_map(async |frame| {
        let data = frame.ok()?.into_data().ok()?;
        Some(Ok::<_, std::convert::Infallible>(Bytes::from(rewritten(&String::from_utf8_lossy(&data)))))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(frames.boxed())).into_response())
}

/// Rewrites a frame of `/v1/events`: its kind and position, and the data of progress reports. An `EventSource` gets events of all kinds
/// only if they have no `event` line.
fn rewritten(frame: &str) -> String {
    let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let Some(kind) = line("event:") else { return frame.to_owned() };
    let id = line("id:").map(|id| format!("id: {id}\n")).unwrap_or_default();
    let data = match kind {
        "progress" => {
            let report: Value = line("data:").and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default();
            json!({ "kind": kind, "percent": report["percent"], "message": report["message"] })
        }
        kind => json!({ "kind": kind }),
    };
    format!("{id}data: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_only_their_kind_and_progress() {
        let frame = "id: 7\nevent: job.succeeded\ndata: {\"secret\":1}\n\n";
        assert_eq!(rewritten(frame), "id: 7\ndata: {\"kind\":\"job.succeeded\"}\n\n");
        let frame = "event: progress\ndata: {\"job\":\"x\",\"percent\":62,\"message\":\"m\"}\n\n";
        assert_eq!(rewritten(frame), "data: {\"kind\":\"progress\",\"message\":\"m\",\"percent\":62}\n\n");
        assert_eq!(rewritten(": \n\n"), ": \n\n");
    }
}
