//! Trying again: when it is safe, with the same key, as patiently as was said.

use std::time::Duration;

use bursar_client::wire::work::{ReturnBody, SelectionBody};
use bursar_client::{ChargeBody, CommandBody, Error, JobId, Kind, ViolationAnswer};
use tokio::time::Instant;

use crate::script::{Script, Step, problem, told};

const DONE: &str = r#"{"id":"cmd_00000000000000000000000001","replayed":false,"dry_run":false,"hold":null,"posted":[],
    "grants":[],"jobs":[]}"#;

fn done() -> Step {
    Step::Answer(201, &[], DONE.into())
}

fn command() -> CommandBody {
    CommandBody { charges: vec![ChargeBody::new("a".try_into().unwrap(), 1)], ..CommandBody::default() }
}

fn job() -> JobId {
    "job_01j9zq3v4w5x6y7z8abcdefghj".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_write_keeps_its_key_over_all_tries_and_heeds_when_to_come_again() {
    let script = Script::new([
        Step::Breaks { sent: true },
        problem(504, "unknown-outcome"),
        told(503, &[("retry-after", "3")], "overloaded"),
        Step::Answer(502, &[], "<html>a proxy</html>".into()),
        done(),
    ]);
    let began = Instant::now();
    script.client().commands().submit(&command()).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    let keys = script.headers("idempotency-key");
    assert_eq!(keys.len(), 5);
    assert!(keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(script.asked().iter().all(|request| request.body() == script.asked()[0].body()));
}

#[tokio::test(start_paused = true)]
async fn a_given_key_is_used_and_every_call_has_one_of_its_own_otherwise() {
    let script = Script::new([done()]);
    let client = script.client();
    client.key("order-7".try_into().unwrap()).commands().submit(&command()).await.unwrap();
    client.commands().submit(&command()).await.unwrap();
    client.commands().submit(&command()).await.unwrap();
    let keys = script.headers("idempotency-key");
    assert_eq!(keys[0].as_deref(), Some("order-7"));
    assert_ne!(keys[1], keys[2]);
    assert_eq!(script.headers("authorization"), vec![Some("Bearer a-token".to_owned()); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_with_its_violations_and_not_repeated() {
    let body = r#"{"type":"/problems/refused","title":"t","status":409,"detail":"d","violations":[{"kind":"limit","scope":"a",
        "window":"day","zone":"UTC","limit":10,"requested":7,"available":4,"retry_after_ms":5000,"possible":true}]}"#;
    let script = Script::new([Step::Answer(409, &[], body.into())]);
    let error = script.client().commands().submit(&command()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Some(Kind::Refused), false));
    assert!(matches!(error.violations(), [ViolationAnswer::Limit { available: 4, requested: 7, .. }]));
    assert_eq!(script.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_is_used_up_is_told_and_not_asked_for_again() {
    let script = Script::new([told(429, &[("retry-after", "1")], "quota-exceeded")]);
    let error = script.client().commands().submit(&command()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Some(Kind::QuotaExceeded), false));
    assert_eq!(script.asked().len(), 1, "the window does not turn because somebody insists");
}

#[tokio::test(start_paused = true)]
async fn what_is_done_to_jobs_has_a_key_and_what_workers_report_has_a_fence() {
    let finished = r#"{"id":"job_01j9zq3v4w5x6y7z8abcdefghj","state":"cancelled","run_at":null,"hold":null,"cost":[]}"#;
    let answered = || Step::Answer(200, &[], finished.into());
    let script = Script::new([Step::Breaks { sent: true }, problem(503, "busy"), answered()]);
    script.client().jobs().discard(job(), None).await.unwrap();
    let keys = script.headers("idempotency-key");
    assert!(keys.len() == 3 && keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");

    let acted = r#"{"matched":1,"done":1,"refused":0,"next":null}"#;
    let script = Script::new([Step::Breaks { sent: true }, Step::Answer(200, &[], acted.into())]);
    script.client().dead().retry(&SelectionBody::default()).await.unwrap();
    let keys = script.headers("idempotency-key");
    assert!(keys.len() == 2 && keys[0].is_some() && keys[0] == keys[1], "{keys:?}");

    let script = Script::new([Step::Breaks { sent: true }, answered()]);
    script.client().work().hand_back(job(), &ReturnBody { fence: 1 }).await.unwrap();
    assert_eq!(script.headers("idempotency-key"), [None, None]);
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let script = Script::new([problem(503, "unavailable")]);
    let began = Instant::now();
    let error = script.client().within(Duration::from_secs(10)).verify().await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Some(Kind::Unavailable), true));
    assert!(began.elapsed() <= Duration::from_secs(10) && script.asked().len() >= 5, "{:?}", began.elapsed());

    // Who says to come again when patience is over is not waited for.
    let script = Script::new([told(429, &[("retry-after", "60")], "too-many-attempts")]);
    let began = Instant::now();
    let error = script.client().verify().await.unwrap_err();
    assert_eq!((error.kind(), script.asked().len()), (Some(Kind::TooManyAttempts), 1));
    assert!(began.elapsed() < Duration::from_secs(1));

    let script = Script::new([Step::Silence]);
    let error = script.client().commands().submit(&command()).await.unwrap_err();
    let Error::UnknownOutcome { key: Some(key), .. } = error else { panic!("{error:?}") };
    assert_eq!(script.headers("idempotency-key")[0].as_deref(), Some(key.as_str()));
}

#[tokio::test(start_paused = true)]
async fn one_try_is_one_try_without_a_key() {
    let script = Script::new([Step::Breaks { sent: false }]);
    let error = script.client().once().commands().submit(&command()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(script.headers("idempotency-key"), [None]);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_none_are_not_tried_again() {
    for (status, body) in [(200, "<html>"), (200, r#"{"ok":"perhaps"}"#), (201, "")] {
        let script = Script::new([Step::Answer(status, &[], body.into())]);
        let error = script.client().verify().await.unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
        assert_eq!(script.asked().len(), 1);
    }
    let script = Script::new([Step::Answer(200, &[], " ".repeat((64 << 20) + 1))]);
    let error = script.client().verify().await.unwrap_err();
    assert!(error.to_string().contains("more than 67108864 bytes"), "{error}");
    let script = Script::new([Step::Answer(500, &[], String::new())]);
    assert_eq!(script.client().verify().await.unwrap_err().kind(), Some(Kind::Internal));
}
