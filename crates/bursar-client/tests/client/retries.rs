//! Retries: only if they are safe, with the same idempotency key, until the timeout.

use std::time::Duration;

use bursar_client::wire::bulk::SelectionBody;
use bursar_client::wire::worker_calls::ReturnBody;
use bursar_client::{ChargeBody, CommandBody, Error, JobId, Kind, ViolationAnswer};
use tokio::time::Instant;

use crate::script::{Script, Step, problem, problem_with};

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
async fn a_write_is_retried_with_the_same_key_after_retry_after() {
    let script = Script::new([
        Step::Breaks { sent: true },
        problem(504, "unknown-outcome"),
        problem_with(503, &[("retry-after", "3")], "overloaded"),
        Step::Answer(502, &[], "<html>a proxy</html>".into()),
        done(),
    ]);
    let began = Instant::now();
    script.client().commands().submit(&command()).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    let keys = script.headers("idempotency-key");
    assert_eq!(keys.len(), 5);
    assert!(keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(script.requests().iter().all(|request| request.body() == script.requests()[0].body()));
}

#[tokio::test(start_paused = true)]
async fn a_given_key_is_used_and_others_are_generated() {
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
async fn a_refusal_has_its_violations_and_is_not_retried() {
    let body = r#"{"type":"/problems/refused","title":"t","status":409,"detail":"d","violations":[{"kind":"limit","scope":"a",
        "window":"day","zone":"UTC","limit":10,"requested":7,"available":4,"retry_after_ms":5000,"possible":true}]}"#;
    let script = Script::new([Step::Answer(409, &[], body.into())]);
    let error = script.client().commands().submit(&command()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Some(Kind::Refused), false));
    assert!(matches!(error.violations(), [ViolationAnswer::Limit { available: 4, requested: 7, .. }]));
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_exceeded_quota_is_not_retried() {
    let script = Script::new([problem_with(429, &[("retry-after", "1")], "quota-exceeded")]);
    let error = script.client().commands().submit(&command()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Some(Kind::QuotaExceeded), false));
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn operations_on_jobs_have_a_key_and_reports_of_workers_do_not() {
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
async fn retries_end_with_the_timeout() {
    let script = Script::new([problem(503, "unavailable")]);
    let began = Instant::now();
    let error = script.client().within(Duration::from_secs(10)).verify().await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Some(Kind::Unavailable), true));
    assert!(began.elapsed() <= Duration::from_secs(10) && script.requests().len() >= 5, "{:?}", began.elapsed());

    // A retry-after time beyond the timeout is not waited for.
    let script = Script::new([problem_with(429, &[("retry-after", "60")], "too-many-attempts")]);
    let began = Instant::now();
    let error = script.client().verify().await.unwrap_err();
    assert_eq!((error.kind(), script.requests().len()), (Some(Kind::TooManyAttempts), 1));
    assert!(began.elapsed() < Duration::from_secs(1));

    let script = Script::new([Step::Silence]);
    let error = script.client().commands().submit(&command()).await.unwrap_err();
    let Error::UnknownOutcome { key: Some(key), .. } = error else { panic!("{error:?}") };
    assert_eq!(script.headers("idempotency-key")[0].as_deref(), Some(key.as_str()));
}

#[tokio::test(start_paused = true)]
async fn a_client_with_one_attempt_sends_no_key() {
    let script = Script::new([Step::Breaks { sent: false }]);
    let error = script.client().once().commands().submit(&command()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(script.headers("idempotency-key"), [None]);
}

#[tokio::test(start_paused = true)]
async fn unreadable_answers_are_not_retried() {
    for (status, body) in [(200, "<html>"), (200, r#"{"ok":"perhaps"}"#), (201, "")] {
        let script = Script::new([Step::Answer(status, &[], body.into())]);
        let error = script.client().verify().await.unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
        assert_eq!(script.requests().len(), 1);
    }
    let script = Script::new([Step::Answer(200, &[], " ".repeat((64 << 20) + 1))]);
    let error = script.client().verify().await.unwrap_err();
    assert!(error.to_string().contains("more than 67108864 bytes"), "{error}");
    let script = Script::new([Step::Answer(500, &[], String::new())]);
    assert_eq!(script.client().verify().await.unwrap_err().kind(), Some(Kind::Internal));
}
