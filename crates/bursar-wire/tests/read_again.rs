//! What one side writes, the other reads.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use bursar_wire::budget::BudgetAnswer;
use bursar_wire::problem::{Kind, Problem, ViolationAnswer};
use bursar_wire::queue::QueueAnswer;
use bursar_wire::schedule::ScheduleAnswer;
use bursar_wire::work::{FinishedItems, ItemAnswer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn again<T: DeserializeOwned + Serialize>(told: &Value) -> T {
    let read: T = serde_json::from_str(&told.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *told);
    read
}

fn budget() -> Value {
    json!({
        "scope": "a", "unit": "usd", "parent": null, "limits": [{ "amount": 1, "window": "lifetime" }],
        "hold": { "ttl_ms_min": 0, "ttl_ms": null, "ttl_ms_max": 9, "life_ms_max": null, "late": "charge",
                  "overrun": "refuse" },
        "trip": null, "thresholds": [], "shadow": false, "frozen": true,
        "freeze": { "by": "trip", "window": "day", "zone": "UTC", "until": null },
        "balances": [{ "window": "lifetime", "start": null, "end": null, "limit": 1, "posted": 0, "held": 1,
                       "remaining": 0 }],
    })
}

#[test]
fn a_budget_is_told_from_a_scope_without_one() {
    assert!(again::<BudgetAnswer>(&budget()).budget.is_some());
    let bare = json!({ "scope": "a", "frozen": false, "balances": [] });
    assert!(again::<BudgetAnswer>(&bare).budget.is_none());
}

#[test]
fn payloads_of_schedules_stay_the_text_they_are() {
    let text = r#"{ "name": "n", "cron": "@daily", "zone": "UTC", "queue": "q", "kind": "k", "next_at": null,
        "last_tick": null, "last_job": null, "payload": { "b": 1.50, "a": 12345678901234567890123 } }"#;
    let read: ScheduleAnswer = serde_json::from_str(text).unwrap();
    assert_eq!(read.spec.payload.as_str(), r#"{ "b": 1.50, "a": 12345678901234567890123 }"#);
    assert!(serde_json::from_str::<ScheduleAnswer>(r#"{ "name": "n" }"#).is_err());
}

#[test]
fn queues_items_and_problems_are_read_again() {
    let queue = bursar_wire::queue::QueueBody::default();
    let queue = QueueAnswer { name: "q".try_into().unwrap(), config: queue, figures: None };
    again::<QueueAnswer>(&serde_json::to_value(queue).unwrap());
    let problem = json!({
        "type": "/problems/refused", "title": Problem::new(Kind::Refused, "").title, "status": 409, "detail": "d", "retry_after_ms": 5, "request_id": "r",
        "violations": [{ "kind": "limit", "scope": "a", "window": "rolling", "length_ms": 5, "limit": 1, "requested": 2,
                         "available": 1, "retry_after_ms": null, "possible": false },
                       { "kind": "frozen", "scope": "a" }, { "kind": "grant", "purpose": "p" }],
    });
    let read: Problem = again(&problem);
    assert_eq!((read.kind, read.retry_after_ms()), (Kind::Refused, Some(5)));
    assert!(matches!(&read.violations[0], ViolationAnswer::Limit { window, .. } if window.length_ms == Some(5)));
    let done = json!({ "id": "job_01j9zq3v4w5x6y7z8abcdefghj", "state": "awaiting_budget", "run_at": null, "hold": null,
                       "cost": [{ "scope": "a", "amount": 4 }] });
    let items: FinishedItems = again(&json!({ "items": [done, { "problem": problem }] }));
    assert!(matches!(items.items[0], ItemAnswer::Done(_)) && matches!(items.items[1], ItemAnswer::Not { .. }));
}

#[test]
fn a_problem_of_an_unknown_kind_is_read_by_its_status() {
    for (status, kind) in [(409, Kind::Conflict), (418, Kind::Invalid), (503, Kind::Unavailable), (599, Kind::Internal)]
    {
        let told = json!({ "type": "/problems/of-tomorrow", "title": "t", "status": status, "detail": "d" });
        assert_eq!(serde_json::from_value::<Problem>(told).unwrap().kind, kind);
    }
    for kind in Kind::ALL.iter().copied() {
        let told = serde_json::to_string(&Problem::new(kind, "d")).unwrap();
        assert_eq!(serde_json::from_str::<Problem>(&told).unwrap().kind, kind);
    }
}
