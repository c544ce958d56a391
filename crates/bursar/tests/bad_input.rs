//! Bad input: every case is a typed error that says what to do, and nothing is changed.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use bursar::{
    Budget, Bursar, Charge, Command, Error, HoldId, Invalid, Limit, Op, Payload, Refusal, Request, Scope, Settle,
    StoreError, Window,
};

async fn room() -> Bursar {
    let bursar = Bursar::options("sqlite::memory:").upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", Budget::new([Limit::new(100, Window::Lifetime)])).await.unwrap();
    bursar
}

fn field(error: Error) -> String {
    match error {
        Error::Refused(Refusal::Invalid(Invalid { field, .. })) => field.into_owned(),
        other => panic!("input should be invalid: {other}"),
    }
}

#[tokio::test]
async fn an_invalid_command_names_its_field_and_changes_nothing() {
    let bursar = room().await;
    let before = bursar.health().await.unwrap().position;
    let minute = Duration::from_secs(60);
    let command = || bursar.command();
    let day = || Limit::new(5, "day".parse().unwrap());
    let big = "x".repeat(10 << 20);
    let cases = [
        (command().submit().await, "charges"),
        (command().charge("room", -1).submit().await, "charges[0].amount"),
        (command().charge("", 1).submit().await, "scope"),
        (command().charge(&big, 1).submit().await, "scope"),
        (command().charge("room", 1).key(&big).submit().await, "idempotency_key"),
        (command().charge("room", 1).hold_for(Duration::ZERO).submit().await, "ttl_ms"),
        (command().charge("room", 1).hold_for(Duration::MAX).submit().await, "ttl_ms"),
        (command().hold_for(minute).submit().await, "charges"),
        (command().charge("room", 1).settle_with_job().submit().await, "jobs"),
        (command().charge_within("free", 1, [day()]).hold_for(minute * 60 * 24 * 31).submit().await, "ttl_ms"),
        (
            command().charge_within("free", 1, [Limit::new(-1, Window::Lifetime)]).submit().await,
            "charges[0].limits[0].amount",
        ),
        (command().charge_within("free", 1, vec![day(); 9]).submit().await, "charges[0].limits"),
        (bursar.because(&big).command().charge("room", 1).submit().await, "context.reason"),
    ];
    for (answer, expected) in cases {
        assert_eq!(field(answer.expect_err("the command is invalid")), expected);
    }
    let charges = (0..10_000).map(|n| Charge::new(Scope::new(format!("s{n}")).unwrap(), 1)).collect();
    let huge = Command { charges, settle: Settle::Now, ..Command::default() };
    let refused = bursar.request(Request::from(Op::Submit(huge))).await.unwrap_err();
    assert_eq!(refused.to_string(), "charges has 10000 entries; at most 1000 are allowed");
    assert_eq!(bursar.health().await.unwrap().position, before, "nothing was written");
}

#[tokio::test]
async fn amounts_that_overflow_are_refused() {
    let bursar = room().await;
    let most = [Limit::new(i64::MAX, Window::Lifetime)];
    bursar.command().charge_within("huge", i64::MAX - 5, most.clone()).submit().await.unwrap();
    let refused = bursar.command().charge_within("huge", 6, most.clone()).submit().await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Refused(_))), "{refused}");
    let twice = bursar.command().charge("room", i64::MAX).charge("room", i64::MAX).submit().await.unwrap_err();
    assert!(matches!(twice, Error::Refused(Refusal::Overflow { .. })), "{twice}");
    let held =
        bursar.command().charge_within("huge", 1, most).hold_for(Duration::from_secs(9)).submit_held().await.unwrap().0;
    let id = held.detach();
    let over = bursar.ledger().commit(id, i64::MAX).await.unwrap_err();
    assert!(matches!(over, Error::Refused(Refusal::Overflow { .. })), "{over}");
    assert!(bursar.verify().await.unwrap().is_ok());
    bursar.ledger().commit(id, 1).await.unwrap();
}

#[tokio::test]
async fn things_of_other_tenants_are_reported_as_unknown() {
    let bursar = room().await;
    let ledger = bursar.ledger();
    let unknown = ledger.post("nowhere", 1).await.unwrap_err();
    assert!(unknown.to_string().contains("define a budget or pass limits"), "{unknown}");
    assert!(matches!(ledger.commit(HoldId(7), 1).await, Err(Error::Refused(Refusal::UnknownHold { .. }))));
    let foreign = bursar.tenant("acme").unwrap();
    let minted = foreign.grants().mint("upload", "s", Payload::default(), Duration::from_secs(60)).await.unwrap();
    let token = minted.token.unwrap();
    let stolen = bursar.grants().redeem("upload", "s", &token).await.unwrap_err();
    let malformed = bursar.grants().redeem("upload", "s", "bgr_nonsense").await.unwrap_err();
    assert_eq!(stolen.to_string(), malformed.to_string());
    foreign.grants().redeem("upload", "s", &token).await.unwrap();
    for bad in ["hold_", "job_00000000000000000000000000", "", "hold_zzzzzzzzzzzzzzzzzzzzzzzzzz"] {
        assert!(bad.parse::<HoldId>().is_err(), "{bad}");
    }
    assert!("month@Atlantis/Center".parse::<Window>().unwrap_err().to_string().contains("IANA"));
    assert_eq!(field(bursar.grants().mint("p", "s", Payload::default(), Duration::ZERO).await.unwrap_err()), "ttl_ms");
    assert_eq!(Payload::new("{").unwrap_err().field, "payload");
    assert_eq!(Payload::new(format!("\"{}\"", "x".repeat(2 << 20))).unwrap_err().field, "payload");
}

fn store(error: Error) -> std::sync::Arc<StoreError> {
    match error {
        Error::Store(error) => error,
        other => panic!("the store should fail: {other}"),
    }
}

async fn fails_to_open(url: &str) -> std::sync::Arc<StoreError> {
    match Bursar::options(url).upkeep(None).open().await {
        Ok(_) => panic!("{url} should not open"),
        Err(error) => store(error),
    }
}

#[tokio::test]
async fn an_unusable_database_is_reported_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
    assert!(matches!(*fails_to_open("mysql://x:secret@y").await, StoreError::BadUrl(_)));
    assert!(!fails_to_open("mysql://x:secret@y").await.to_string().contains("secret"));
    assert!(matches!(*fails_to_open(&path("missing/b.db")).await, StoreError::Unavailable { .. }));

    std::fs::write(folder.path().join("text.db"), "this is not a database, only some text in a file\n".repeat(100))
        .unwrap();
    let damaged = fails_to_open(&path("text.db")).await;
    assert!(damaged.to_string().contains("bursar doctor"), "{damaged}");
    let text = std::fs::read_to_string(folder.path().join("text.db")).unwrap();
    assert!(text.starts_with("this is not a database"), "the file is unchanged");

    let no_file = Bursar::options(&path("none.db")).migrate(false).open().await.err().map(store).unwrap();
    assert!(matches!(*no_file, StoreError::Unavailable { .. }), "{no_file}");
    rusqlite::Connection::open(folder.path().join("bare.db")).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    let bare = Bursar::options(&path("bare.db")).migrate(false).open().await.err().map(store).unwrap();
    assert!(matches!(*bare, StoreError::NotMigrated { found: 0, .. }), "{bare}");

    Bursar::open(&path("newer.db")).await.unwrap().close().await;
    let newer = rusqlite::Connection::open(folder.path().join("newer.db")).unwrap();
    newer.execute("UPDATE bursar_meta SET value = '999' WHERE key = 'schema'", []).unwrap();
    assert!(matches!(*fails_to_open(&path("newer.db")).await, StoreError::NewerSchema { found: 999, .. }));
}

#[tokio::test]
async fn file_locked_by_another_program_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    let bursar = Bursar::options(&format!("sqlite://{}", file.display())).upkeep(None).open().await.unwrap();
    bursar.ledger().define("room", Budget::new([Limit::new(100, Window::Lifetime)])).await.unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = bursar.ledger().post("room", 1).await.unwrap_err();
    assert!(busy.is_busy(), "{busy}");
    assert_eq!(bursar.ledger().budget("room").await.unwrap().unwrap().balances[0].posted, 0, "readers are not blocked");
    other.execute_batch("ROLLBACK").unwrap();
    bursar.ledger().post("room", 1).await.unwrap();
}

#[tokio::test]
async fn a_corrupt_row_fails_only_its_own_requests() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.db");
    let url = format!("sqlite://{}", file.display());
    let bursar = Bursar::options(&url).upkeep(None).open().await.unwrap();
    let ledger = bursar.ledger();
    for name in ["room", "other"] {
        ledger.define(name, Budget::new([Limit::new(100, Window::Lifetime)])).await.unwrap();
    }
    // An unreadable row fails its own requests, not the others of the same batch.
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute("UPDATE bursar_scopes SET state = x'ff00' WHERE scope = 'room'", []).unwrap();
    let (bad, good) = tokio::join!(ledger.post("room", 1), ledger.post("other", 1));
    assert!(matches!(*store(bad.unwrap_err()), StoreError::Corrupt { .. }));
    good.unwrap();
    // The journal is intact, so a rebuild restores the row.
    bursar.rebuild().await.unwrap();
    ledger.post("room", 1).await.unwrap();
    assert!(bursar.verify().await.unwrap().is_ok());
}

#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
fn other(error: rusqlite::Error) -> Error {
    Error::Internal(error.to_string())
}

#[tokio::test]
async fn closures_that_panic_or_never_end_are_rolled_back() {
    let bursar = room().await;
    let panicked = bursar
        .transaction(|tx| -> Result<(), Error> {
            tx.try_reserve("free", 1, 10, Window::Lifetime)?;
            panic!("in the middle");
        })
        .await
        .unwrap_err();
    assert!(panicked.to_string().contains("in the middle"), "{panicked}");
    let endless = bursar
        .transaction_within(Duration::from_millis(50), |tx| {
            tx.try_reserve("free", 1, 10, Window::Lifetime)?;
            let forever = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
            tx.connection().query_row(forever, [], |row| row.get::<_, i64>(0)).map_err(other)
        })
        .await
        .unwrap_err();
    assert!(endless.to_string().contains("interrupted") || endless.to_string().contains("in time"), "{endless}");
    for forbidden in ["COMMIT", "ROLLBACK", "SAVEPOINT x", "ATTACH ':memory:' AS y", "PRAGMA synchronous = OFF"] {
        let refused = bursar.transaction(move |tx| tx.connection().execute_batch(forbidden).map_err(other)).await;
        assert!(refused.unwrap_err().to_string().contains("not authorized"), "{forbidden}");
    }
    assert!(bursar.ledger().budget("free").await.unwrap().is_none(), "everything was rolled back");
    bursar.ledger().post("room", 1).await.unwrap();
}
