//! Answers are the same after a round trip.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use bursar_wire::budget::BudgetAnswer;
use bursar_wire::problem::{Kind, Problem, ViolationAnswer};
use bursar_wire::queue::{FiguresAnswer, QueueAnswer};
use bursar_wire::schedule::ScheduleAnswer;
use bursar_wire::worker_calls::{FinishedItems, ItemAnswer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn round_trip<T: DeserializeOwned + Serialize>(json: &Value) -> T {
    let read: T = serde_json::from_str(&json.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *json);
    read
}

fn budget() -> Value {
    json!({
        "scope": "a", "unit": "usd", "unit_symbol": "$", "unit_decimals": 6, "parent": null, "limits": [{ "amount": 1, "window": "lifetime" }],
        "hold": { "ttl_ms_min": 0, "ttl_ms": null, "ttl_ms_max": 9, "life_ms_max": null, "late": "charge",
                  "overrun": "refuse" },
        "trip": null, "thresholds": [], "shadow": false, "frozen": true,
        "freeze": { "by": "trip", "window": "day", "zone": "UTC", "until": null },
        "balances": [{ "window": "lifetime", "start": null, "end": null, "limit": 1, "posted": 0, "held": 1,
                       "remaining": 0, "unit": { "name": "usd", "symbol": "$", "decimals": 6 } }],
    })
}

#[test]
fn a_scope_without_a_budget_is_recognized() {
    assert!(round_trip::<BudgetAnswer>(&budget()).budget.is_some());
    let bare = json!({ "scope": "a", "frozen": false, "balances": [] });
    assert!(round_trip::<BudgetAnswer>(&bare).budget.is_none());
}

#[test]
fn the_payload_of_a_schedule_keeps_its_text() {
    let text = r#"{ "name": "n", "cron": "@daily", "zone": "UTC", "queue": "q", "kind": "k", "next_at": null,
        "last_tick": null, "last_job": null, "payload": { "b": 1.50, "a": 12345678901234567890123 } }"#;
    let read: ScheduleAnswer = serde_json::from_str(text).unwrap();
    assert_eq!(read.spec.payload.as_str(), r#"{ "b": 1.50, "a": 12345678901234567890123 }"#);
    assert!(serde_json::from_str::<ScheduleAnswer>(r#"{ "name": "n" }"#).is_err());
}

#[test]
fn queues_items_and_problems_survive_a_round_trip() {
    let queue = bursar_wire::queue::QueueBody::default();
    let queue = QueueAnswer { name: "q".try_into().unwrap(), config: queue, figures: FiguresAnswer::default() };
    round_trip::<QueueAnswer>(&serde_json::to_value(queue).unwrap());
    let problem = json!({
        "type": "/problems/refused", "title": Problem::new(Kind::Refused, "").title, "status": 409, "detail": "d", "retry_after_ms": 5, "request_id": "r",
        "violations": [{ "kind": "limit", "scope": "a", "window": "rolling", "length_ms": 5, "limit": 1, "requested": 2,
                         "available": 1, "retry_after_ms": null, "possible": false,
                         "unit": { "name": "", "symbol": null, "decimals": 0 } },
                       { "kind": "frozen", "scope": "a" }, { "kind": "grant", "purpose": "p" }],
    });
    let read: Problem = round_trip(&problem);
    assert_eq!((read.kind, read.retry_after_ms()), (Kind::Refused, Some(5)));
    assert!(matches!(&read.violations[0], ViolationAnswer::Limit { window, .. } if window.length_ms == Some(5)));
    let done = json!({ "id": "job_01j9zq3v4w5x6y7z8abcdefghj", "state": "awaiting_budget", "run_at": null, "hold": null,
                       "cost": [{ "scope": "a", "amount": 4 }], "overrun": 1, "warnings": ["overrun"] });
    let items: FinishedItems = round_trip(&json!({ "items": [done, { "problem": problem }] }));
    assert!(matches!(items.items[0], ItemAnswer::Done(_)) && matches!(items.items[1], ItemAnswer::Failed { .. }));
}

#[test]
fn an_unknown_problem_type_is_classified_by_its_status() {
    for (status, kind) in [(409, Kind::Conflict), (418, Kind::Invalid), (503, Kind::Unavailable), (599, Kind::Internal)]
    {
        let json = json!({ "type": "/problems/of-tomorrow", "title": "t", "status": status, "detail": "d" });
        assert_eq!(serde_json::from_value::<Problem>(json).unwrap().kind, kind);
    }
    for kind in Kind::ALL.iter().copied() {
        let json = serde_json::to_string(&Problem::new(kind, "d")).unwrap();
        assert_eq!(serde_json::from_str::<Problem>(&json).unwrap().kind, kind);
    }
}
