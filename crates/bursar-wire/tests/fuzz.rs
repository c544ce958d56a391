//! No shape panics on any input, and a parsed value is the same after a round trip.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use bursar_core::budget::{Budget, Limit};
use bursar_core::context::Context;
use bursar_core::job::JobSpec;
use bursar_wire::budget::{BudgetAnswer, BudgetBody, CreditBody, ReasonBody};
use bursar_wire::bulk::{EditBody, EditManyBody, MoveBody, MoveManyBody, SelectionBody};
use bursar_wire::command::{CommandAnswer, CommandBody};
use bursar_wire::credential::{KeyBody, RotateBody, WorkerBody};
use bursar_wire::event::EventAnswer;
use bursar_wire::grant::MintBody;
use bursar_wire::hold::{CommitBody, ExtendBody, HoldBody};
use bursar_wire::job::{BulkBody, JobAnswer, JobBody};
use bursar_wire::meter::QuotaLimitBody;
use bursar_wire::problem::Problem;
use bursar_wire::queue::{QueueAnswer, QueueBody};
use bursar_wire::schedule::{ScheduleAnswer, ScheduleBody};
use bursar_wire::window::LimitBody;
use bursar_wire::worker_calls::{
    CompleteBody, CompleteItem, FailBody, FailItem, HeartbeatBody, ItemsBody, LeaseBody, ProgressBody, ReturnBody,
    SnoozeBody,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Valid request bodies, from which the fuzzer derives others.
fn bodies() -> Vec<Value> {
    let job = "job_01j9zq3v4w5x6y7z8abcdefghj";
    let limits = json!([
        { "amount": 1_000_000, "window": "month", "zone": "Europe/Berlin" },
        { "amount": 50_000, "window": "rolling", "length_ms": 3_600_000 },
        { "amount": 9, "window": "bucket", "refill": 2, "length_ms": 1_000 },
        { "amount": 1, "window": "week", "zone": "UTC", "week_start": "sunday" },
    ]);
    let spec = json!({
        "queue": "media", "kind": "video.generate", "payload": { "a": [1, null] }, "idempotency_key": "k", "key": "f",
        "tags": ["t"], "metadata": {}, "parent": job, "priority": -3, "delay_ms": 5, "max_attempts": 2,
        "retry": { "max_attempts": 5, "backoff": "exponential", "first_ms": 1_000, "most_ms": 3_600_000 },
    });
    vec![
        json!({ "unit": "usd", "limits": limits, "thresholds": [50, 100], "parent": "a", "shadow": true, "reason": "r",
                "hold": { "ttl_ms": 5, "ttl_ms_max": 9, "late": "charge", "overrun": "refuse" } }),
        json!({ "amount": 1, "hold": "hold_00000000000000000000000000", "reason": "r" }),
        json!({ "charges": [{ "scope": "a", "amount": 1, "limits": limits }], "settle": "hold", "ttl_ms": 1,
                "redeem": [{ "purpose": "p", "subject": "s", "token": "bgr_1" }], "jobs": [spec],
                "context": { "correlation_id": "c", "reason": "r" }, "dry_run": true }),
        json!({ "actual": 1, "actuals": [{ "scope": "a", "amount": 2 }] }),
        json!({ "by_ms": 30_000 }),
        json!({ "purpose": "p", "subject": "s", "payload": 1, "ttl_ms": 60_000 }),
        json!({ "jobs": [spec] }),
        spec,
        json!({ "filter": { "queue": "media", "kind": "video.*" }, "ids": [job], "priority": 10 }),
        json!({ "filter": { "queue": "media" }, "ids": [job], "to": "slow", "dry_run": true }),
        json!({ "queues": ["media"], "kinds": ["*"], "capacity": 3, "wait_ms": 0, "lease_ms": 1_000, "worker": "w" }),
        json!({ "fence": 17, "progress": { "percent": 40.5, "message": "m", "data": {} } }),
        json!({ "fence": 17, "percent": 40, "message": "m", "data": null }),
        json!({ "fence": 17, "result": { "url": "…" }, "usage": [{ "scope": "a", "amount": 42 }] }),
        json!({ "fence": 17, "error": { "kind": "timeout", "message": "m" }, "retryable": true, "retry_after_ms": 5 }),
        json!({ "items": [{ "id": job, "fence": 17, "result": null }] }),
        json!({ "concurrency": 20, "rate": { "amount": 100, "per_ms": 1_000 }, "key_concurrency": 2, "lease_ms": 30_000 }),
        json!({ "cron": "30 7 * * MON-FRI", "zone": "Europe/Berlin", "queue": "q", "kind": "k", "missed": "one",
                "overlap": "skip", "payload": [1] }),
        json!({ "name": "w", "capabilities": { "queues": ["m-*"], "kinds": ["*"] }, "expires_in_ms": 5 }),
        json!({ "name": "k", "role": "user", "overlap_ms": 1 }),
        json!({ "agent_id": "0a".repeat(32), "limit": 50_000, "reason": "r" }),
        limits[2].clone(),
    ]
}

/// Parses a body; a body that is accepted must be the same after a round trip.
fn round_trip<T: DeserializeOwned + Serialize>(text: &str) -> Option<T> {
    let read: T = match bursar_wire::read(text) {
        Ok(read) => read,
        Err(problem) => {
            assert!((400..500).contains(&problem.status) && !problem.detail.is_empty(), "{text}");
            return None;
        }
    };
    let written = serde_json::to_string(&read).unwrap();
    let again: T = bursar_wire::read(&written).unwrap_or_else(|problem| panic!("{written}: {}", problem.detail));
    assert_eq!(serde_json::to_string(&again).unwrap(), written);
    Some(read)
}

/// Parses a text as every request body, and converts the accepted ones to types of the core.
fn parse_as_every_body(text: &str) {
    if let Some(body) = round_trip::<BudgetBody>(text) {
        let _ = Budget::try_from(body);
    }
    if let Some(body) = round_trip::<CommandBody>(text) {
        let _ = body.into_command(Context::default());
    }
    if let Some(body) = round_trip::<JobBody>(text) {
        let _ = JobSpec::try_from(body);
    }
    if let Some(body) = round_trip::<LimitBody>(text) {
        let shown = body.shown();
        if let Ok(limit) = Limit::try_from(body) {
            assert_eq!(limit.window.to_string(), shown);
            assert_eq!(Limit::try_from(LimitBody::from(&limit)).unwrap(), limit, "{text}");
        }
    }
    round_trip::<CreditBody>(text);
    round_trip::<ReasonBody>(text);
    round_trip::<HoldBody>(text);
    round_trip::<CommitBody>(text);
    round_trip::<ExtendBody>(text);
    round_trip::<MintBody>(text);
    round_trip::<BulkBody>(text);
    round_trip::<QueueBody>(text);
    round_trip::<ScheduleBody>(text);
    round_trip::<WorkerBody>(text);
    round_trip::<KeyBody>(text);
    round_trip::<RotateBody>(text);
    let _ = bursar_wire::read::<QuotaLimitBody>(text);
    round_trip::<LeaseBody>(text);
    round_trip::<HeartbeatBody>(text);
    round_trip::<ProgressBody>(text);
    round_trip::<CompleteBody>(text);
    round_trip::<FailBody>(text);
    round_trip::<SnoozeBody>(text);
    round_trip::<ReturnBody>(text);
    round_trip::<ItemsBody<CompleteItem>>(text);
    round_trip::<ItemsBody<FailItem>>(text);
    round_trip::<SelectionBody>(text);
    round_trip::<EditBody>(text);
    round_trip::<EditManyBody>(text);
    round_trip::<MoveManyBody>(text);
    round_trip::<MoveBody>(text);
}

#[test]
fn every_sample_is_a_valid_body() {
    for body in bodies() {
        let text = body.to_string();
        let known = [
            round_trip::<BudgetBody>(&text).is_some(),
            round_trip::<CommandBody>(&text).is_some(),
            round_trip::<JobBody>(&text).is_some(),
            round_trip::<LimitBody>(&text).is_some(),
            round_trip::<CreditBody>(&text).is_some(),
            round_trip::<CommitBody>(&text).is_some(),
            round_trip::<ExtendBody>(&text).is_some(),
            round_trip::<MintBody>(&text).is_some(),
            round_trip::<BulkBody>(&text).is_some(),
            round_trip::<QueueBody>(&text).is_some(),
            round_trip::<ScheduleBody>(&text).is_some(),
            round_trip::<WorkerBody>(&text).is_some(),
            bursar_wire::read::<QuotaLimitBody>(&text).is_ok(),
            round_trip::<LeaseBody>(&text).is_some(),
            round_trip::<HeartbeatBody>(&text).is_some(),
            round_trip::<ProgressBody>(&text).is_some(),
            round_trip::<CompleteBody>(&text).is_some(),
            round_trip::<FailBody>(&text).is_some(),
            round_trip::<ItemsBody<CompleteItem>>(&text).is_some(),
            round_trip::<EditManyBody>(&text).is_some(),
            round_trip::<MoveManyBody>(&text).is_some(),
        ];
        // This sample mixes the fields of two bodies on purpose.
        let mixed = text.contains("overlap_ms");
        assert!(mixed || known.contains(&true), "no body accepts {text}");
    }
}

#[test]
fn any_json_is_parsed_or_refused() {
    bursar_fuzz::values(&bodies(), |value| parse_as_every_body(&value.to_string()));
}

#[test]
fn any_text_is_parsed_or_refused() {
    let samples: Vec<String> = bodies().iter().map(Value::to_string).collect();
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    bursar_fuzz::texts(&samples, parse_as_every_body);
}

#[test]
fn any_answer_is_parsed_or_refused() {
    let problem = json!({
        "type": "/problems/refused", "title": "t", "status": 409, "detail": "d", "retry_after_ms": 5, "request_id": "r",
        "violations": [{ "kind": "limit", "scope": "a", "window": "rolling", "length_ms": 5, "limit": 1, "requested": 2,
                         "available": 1, "retry_after_ms": null, "possible": false }, { "kind": "frozen", "scope": "a" }],
    });
    let budget = json!({ "scope": "a", "frozen": false, "balances": [] });
    bursar_fuzz::values(&[problem, budget], |value| {
        let text = value.to_string();
        let _ = serde_json::from_str::<Problem>(&text).map(|problem| problem.retry_after_ms());
        let _ = serde_json::from_str::<BudgetAnswer>(&text);
        let _ = serde_json::from_str::<CommandAnswer>(&text);
        let _ = serde_json::from_str::<EventAnswer>(&text);
        let _ = serde_json::from_str::<JobAnswer>(&text);
        let _ = serde_json::from_str::<QueueAnswer>(&text);
        let _ = serde_json::from_str::<ScheduleAnswer>(&text);
    });
}
