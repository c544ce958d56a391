//! Reservations whose capacity is in a table of the application.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bursar::sqlx::{self, Connection, PgConnection};
use bursar::{
    Bursar, Error, Event, HoldId, HoldState, Refusal, Reservation, ReservationError, ReservationKernel, Resource, Span,
    StoreError, rusqlite,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::home::{self, Home, Place, next_kind, on_both_engines};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CHECKOUT: Duration = Duration::from_secs(600);

/// Seats, whose number is in the application's table.
struct Seats;

impl Resource for Seats {
    type Key = String;
    type Window = String;
    const KIND: &'static str = "seat";

    fn capacity_sqlite(conn: &rusqlite::Connection, show: &String, night: &String) -> Result<i64, Failure> {
        let sql = "SELECT seats FROM shows WHERE name = ?1 AND night = ?2";
        Ok(conn.query_row(sql, (show, night), |row| row.get(0))?)
    }

    async fn capacity_postgres(conn: &mut PgConnection, show: &String, night: &String) -> Result<i64, Failure> {
        let sql = "SELECT seats FROM shows WHERE name = $1 AND night = $2";
        Ok(sqlx::query_scalar(sql).bind(show).bind(night).fetch_one(conn).await?)
    }
}

/// Opens Bursar with a show that has `seats` seats.
async fn theatre(place: Place, seats: i64) -> Home {
    let home = place.open().await;
    home.sql("CREATE TABLE shows (name TEXT, night TEXT, seats BIGINT)").await;
    home.sql(format!("INSERT INTO shows VALUES ('hamlet', 'monday', {seats})")).await;
    home
}

async fn book(bursar: &Bursar, amount: i64) -> Result<Reservation, ReservationError> {
    bursar.reservations::<Seats>().hold(&"hamlet".into(), &"monday".into(), amount, CHECKOUT).await
}

/// Returns the id, the required and the current state of a conflict.
fn conflict(error: ReservationError) -> (HoldId, HoldState, HoldState) {
    match error {
        ReservationError::ConflictingState { id, expected, actual } => (id, expected, actual),
        other => panic!("the state should conflict: {other:?}"),
    }
}

fn shortage(error: ReservationError) -> (i64, i64, i64) {
    match error {
        ReservationError::Insufficient { requested, available, capacity } => (requested, available, capacity),
        other => panic!("the capacity should be insufficient: {other:?}"),
    }
}

on_both_engines! {
    fifty_bookers_get_twenty_seats,
    a_shortage_reports_what_is_available,
    settled_and_unknown_reservations_have_different_errors,
    late_commits_and_overruns_are_refused,
    a_changed_capacity_applies_to_the_next_hold,
    expired_reservations_are_swept,
    every_error_message_starts_with_reservation,
    listeners_receive_every_step,
    two_resources_never_share_a_scope,
}

async fn fifty_bookers_get_twenty_seats(place: Place) {
    let home = theatre(place, 20).await;
    let mut bookers = JoinSet::new();
    for _ in 0..50 {
        let bursar = home.bursar.clone();
        bookers.spawn(async move { book(&bursar, 1).await });
    }
    let (held, refused): (Vec<_>, Vec<_>) = bookers.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((held.len(), refused.len()), (20, 30));
    for refused in refused {
        assert_eq!(shortage(refused.unwrap_err()), (1, 0, 20));
    }
    let mut left: Vec<i64> = held.into_iter().map(|held| held.unwrap().remaining).collect();
    left.sort_unstable();
    assert_eq!(left, (0..20).collect::<Vec<i64>>());
    let scope = home.bursar.reservations::<Seats>().scope(&"hamlet".into(), &"monday".into()).unwrap();
    assert_eq!(home.bursar.ledger().live(&scope, None, 100).await.unwrap().len(), 20);
    assert!(home.bursar.verify().await.unwrap().is_ok());
}

async fn a_shortage_reports_what_is_available(place: Place) {
    let home = theatre(place, 3).await;
    assert_eq!(book(&home.bursar, 2).await.unwrap().remaining, 1);
    assert_eq!(shortage(book(&home.bursar, 2).await.unwrap_err()), (2, 1, 3));
    assert_eq!(book(&home.bursar, 1).await.unwrap().remaining, 0);
}

async fn settled_and_unknown_reservations_have_different_errors(place: Place) {
    let home = theatre(place, 3).await;
    let seats = home.bursar.reservations::<Seats>();
    let (ann, bob) = (book(&home.bursar, 1).await.unwrap().id, book(&home.bursar, 1).await.unwrap().id);
    seats.commit(ann).await.unwrap();
    seats.release(bob, "changed his mind").await.unwrap();
    let (held, committed, released) = (HoldState::Held, HoldState::Committed, HoldState::Released);
    assert_eq!(conflict(seats.commit(ann).await.unwrap_err()), (ann, held, committed));
    assert_eq!(conflict(seats.release(ann, "too late").await.unwrap_err()), (ann, held, committed));
    assert_eq!(conflict(seats.commit(bob).await.unwrap_err()), (bob, held, released));
    assert_eq!(conflict(seats.extend(bob, CHECKOUT).await.unwrap_err()), (bob, held, released));
    let unknown = HoldId(7);
    for error in [
        seats.commit(unknown).await.unwrap_err(),
        seats.release(unknown, "not there").await.unwrap_err(),
        seats.extend(unknown, CHECKOUT).await.unwrap_err(),
        home.bursar.tenant("other").unwrap().reservations::<Seats>().commit(ann).await.unwrap_err(),
    ] {
        assert!(matches!(error, ReservationError::NotFound { id } if id == unknown || id == ann), "{error:?}");
    }
}

async fn late_commits_and_overruns_are_refused(place: Place) {
    let home = theatre(place, 3).await;
    let seats = home.bursar.reservations::<Seats>();
    let ann = book(&home.bursar, 1).await.unwrap().id;
    let over = home.bursar.ledger().commit(ann, 2).await.unwrap_err();
    assert!(matches!(over, Error::Refused(Refusal::OverrunRefused { held: 1, actual: 2, .. })), "{over}");
    let bob = book(&home.bursar, 2).await.unwrap().id;
    home.clock.advance(Span::from(CHECKOUT));
    for id in [ann, bob] {
        assert_eq!(conflict(seats.commit(id).await.unwrap_err()), (id, HoldState::Held, HoldState::Expired));
        assert_eq!(conflict(seats.extend(id, CHECKOUT).await.unwrap_err()), (id, HoldState::Held, HoldState::Expired));
    }
    assert_eq!(book(&home.bursar, 3).await.unwrap().remaining, 0, "an expired reservation stops counting at once");
}

async fn a_changed_capacity_applies_to_the_next_hold(place: Place) {
    let home = theatre(place, 3).await;
    book(&home.bursar, 3).await.unwrap();
    home.sql("UPDATE shows SET seats = 5").await;
    assert_eq!(book(&home.bursar, 1).await.unwrap().remaining, 1);
    home.sql("UPDATE shows SET seats = 2").await;
    assert_eq!(shortage(book(&home.bursar, 1).await.unwrap_err()), (1, 0, 2), "the capacity is below what is reserved");
}

async fn expired_reservations_are_swept(place: Place) {
    let home = theatre(place, 3).await;
    let seats = home.bursar.reservations::<Seats>();
    let ann = book(&home.bursar, 1).await.unwrap();
    assert_eq!(seats.extend(ann.id, Duration::from_secs(60)).await.unwrap(), ann.expires_at.after(Span::from_secs(60)));
    home.clock.advance(Span::from(CHECKOUT));
    assert_eq!(seats.run_sweep_once(500).await.unwrap().expired_count, 0, "the reservation was extended");
    home.clock.advance(Span::from_secs(60));
    let swept = seats.run_sweep_once(500).await.unwrap();
    assert_eq!(swept.expired_count, 1);
    assert!(swept.scanned_at >= ann.expires_at);
    assert_eq!(seats.run_sweep_once(500).await.unwrap().expired_count, 0);
    assert_eq!(home.bursar.ledger().find(ann.id).await.unwrap().unwrap().state, HoldState::Expired);
}

async fn every_error_message_starts_with_reservation(place: Place) {
    let home = theatre(place, 1).await;
    let seats = home.bursar.reservations::<Seats>();
    let ann = book(&home.bursar, 1).await.unwrap().id;
    let full = book(&home.bursar, 2).await.unwrap_err();
    assert_eq!(full.to_string(), "reservation: 2 requested, 0 of 1 available");
    seats.commit(ann).await.unwrap();
    let unknown = seats.hold(&"macbeth".into(), &"monday".into(), 1, CHECKOUT).await.unwrap_err();
    assert!(matches!(unknown, ReservationError::Capacity(_)), "{unknown:?}");
    let invalid = book(&home.bursar, -1).await.unwrap_err();
    assert!(matches!(invalid, ReservationError::Other(Error::Refused(Refusal::Invalid(_)))), "{invalid:?}");
    for error in [unknown, invalid, seats.commit(ann).await.unwrap_err(), seats.commit(HoldId(7)).await.unwrap_err()] {
        assert!(error.to_string().starts_with("reservation: "), "{error}");
    }
}

async fn listeners_receive_every_step(place: Place) {
    let home = theatre(place, 3).await;
    let seats = home.bursar.reservations::<Seats>();
    let mut notices = home.bursar.listen();
    let [ann, bob, eve] = [
        book(&home.bursar, 1).await.unwrap().id,
        book(&home.bursar, 1).await.unwrap().id,
        book(&home.bursar, 1).await.unwrap().id,
    ];
    seats.commit(ann).await.unwrap();
    seats.release(bob, "changed his mind").await.unwrap();
    seats.extend(eve, Duration::from_secs(1)).await.unwrap();
    home.clock.advance(Span::from_secs(3_600));
    assert_eq!(seats.run_sweep_once(500).await.unwrap().expired_count, 1);
    let mut heard = Vec::new();
    while heard.len() < 7 {
        let notice = notices.next().await.expect("open").expect("not lagging");
        heard.push(match notice.event() {
            Event::HoldPlaced { hold, .. } => ("held", *hold),
            Event::HoldCommitted { hold, .. } => ("committed", *hold),
            Event::HoldReleased { hold, .. } => ("released", *hold),
            Event::HoldExtended { hold, .. } => ("extended", *hold),
            Event::HoldExpired { hold, .. } => ("expired", *hold),
            other => panic!("unexpected event: {other:?}"),
        });
    }
    let expected = [
        ("held", ann),
        ("held", bob),
        ("held", eve),
        ("committed", ann),
        ("released", bob),
        ("extended", eve),
        ("expired", eve),
    ];
    assert_eq!(heard, expected);
}

/// A kind whose name contains the separator after kinds.
struct Odd;

impl Resource for Odd {
    type Key = String;
    type Window = String;
    const KIND: &'static str = "seat:x";
}

async fn two_resources_never_share_a_scope(place: Place) {
    let home = theatre(place, 3).await;
    let seats: ReservationKernel<Seats> = home.bursar.reservations();
    let scope = |key: &str, window: &str| seats.scope(&key.into(), &window.into()).unwrap().to_string();
    assert_eq!(scope("hamlet", "2026-11-15"), "seat:hamlet/2026-11-15");
    assert_eq!(scope("x/1", "2"), "seat:x%2F1/2");
    let odd = home.bursar.reservations::<Odd>().scope(&"y".into(), &"1".into()).unwrap().to_string();
    let mut names =
        vec![scope("x/1", "2"), scope("x", "1/2"), scope("x%2F1", "2"), scope("x%1", "2"), scope("x:y", "1"), odd];
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 6, "{names:?}");
    // Both shows can be filled independently.
    home.sql("INSERT INTO shows VALUES ('x/1', '2', 1), ('x', '1/2', 1)").await;
    for (key, window) in [("x/1", "2"), ("x", "1/2")] {
        assert_eq!(seats.hold(&key.into(), &window.into(), 1, CHECKOUT).await.unwrap().remaining, 0);
    }
}

#[tokio::test]
async fn on_sqlite_the_callers_transaction_commits_or_rolls_back() {
    let home = theatre(home::sqlite(), 3).await;
    let mut notices = home.bursar.listen();
    let reserve = |keep: bool| {
        let bursar = home.bursar.clone();
        let work = move |tx: &mut bursar::Transaction<'_, '_>| {
            // The capacity is read in this transaction.
            tx.connection().execute_batch("UPDATE shows SET seats = seats + 1").unwrap();
            let seats = bursar.reservations::<Seats>();
            let (hamlet, monday) = ("hamlet".to_owned(), "monday".to_owned());
            let ann = seats.hold_within(tx, &hamlet, &monday, 2, CHECKOUT)?;
            let bob = seats.hold_within(tx, &hamlet, &monday, 1, CHECKOUT)?;
            assert_eq!((ann.remaining, bob.remaining), (2, 1));
            let until = seats.extend_within(tx, ann.id, Duration::from_secs(1))?;
            assert_eq!(until, ann.expires_at.after(Span::from_secs(1)));
            seats.commit_within(tx, ann.id)?;
            seats.release_within(tx, bob.id, "changed his mind")?;
            let again = seats.commit_within(tx, bob.id).unwrap_err();
            assert_eq!(conflict(again), (bob.id, HoldState::Held, HoldState::Released));
            if keep { Ok(bob.id) } else { Err(ReservationError::NotFound { id: bob.id }) }
        };
        home.bursar.transaction(work)
    };
    let ReservationError::NotFound { id } = reserve(false).await.unwrap_err() else {
        panic!("the closure's own error")
    };
    assert_eq!(home.bursar.ledger().find(id).await.unwrap(), None);
    assert_eq!(home.bursar.health().await.unwrap().position, 0, "nothing was written");
    assert_eq!(shortage(book(&home.bursar, 4).await.unwrap_err()), (4, 3, 3));

    let bob = reserve(true).await.unwrap();
    let expected = ["hold.placed", "hold.placed", "hold.extended", "hold.committed", "hold.released"];
    for kind in expected {
        assert_eq!(next_kind(&mut notices).await, kind, "only committed events");
    }
    let history = home.bursar.journal().history(&bursar::Stream::Hold(bob), 10).await.unwrap();
    assert_eq!(history[0].context.reason.as_deref(), Some("changed his mind"));
}

#[tokio::test]
async fn on_postgres_the_callers_transaction_commits_or_rolls_back() {
    let home = theatre(home::postgres(), 3).await;
    let mut notices = home.bursar.listen();
    let seats = home.bursar.reservations::<Seats>();
    let (hamlet, monday) = ("hamlet".to_owned(), "monday".to_owned());
    let mut conn = home.connect().await;
    for keep in [false, true] {
        let mut tx = conn.begin().await.unwrap();
        // The capacity is read in this transaction.
        sqlx::query("UPDATE shows SET seats = seats + 1").execute(&mut *tx).await.unwrap();
        let ann = seats.hold_in(&mut tx, &hamlet, &monday, 2, CHECKOUT).await.unwrap();
        let bob = seats.hold_in(&mut tx, &hamlet, &monday, 1, CHECKOUT).await.unwrap();
        assert_eq!((ann.remaining, bob.remaining), (2, 1));
        let (until, extended) = seats.extend_in(&mut tx, ann.id, Duration::from_secs(1)).await.unwrap();
        assert_eq!(until, ann.expires_at.after(Span::from_secs(1)));
        let committed = seats.commit_in(&mut tx, ann.id).await.unwrap();
        let released = seats.release_in(&mut tx, bob.id, "changed his mind").await.unwrap();
        let again = seats.commit_in(&mut tx, bob.id).await.unwrap_err();
        assert_eq!(conflict(again), (bob.id, HoldState::Held, HoldState::Released));
        if keep {
            tx.commit().await.unwrap();
            home.bursar.announce([&ann.receipt, &bob.receipt, &extended, &committed, &released]);
            let history = home.bursar.journal().history(&bursar::Stream::Hold(bob.id), 10).await.unwrap();
            assert_eq!(history[0].context.reason.as_deref(), Some("changed his mind"));
        } else {
            tx.rollback().await.unwrap();
            assert_eq!(home.bursar.ledger().find(bob.id).await.unwrap(), None);
            assert_eq!(home.bursar.health().await.unwrap().position, 0, "nothing was written");
            assert_eq!(shortage(book(&home.bursar, 4).await.unwrap_err()), (4, 3, 3));
        }
    }
    let expected = ["hold.placed", "hold.placed", "hold.extended", "hold.committed", "hold.released"];
    for kind in expected {
        assert_eq!(next_kind(&mut notices).await, kind, "only committed events");
    }
}

#[tokio::test]
async fn default_isolation_of_the_server_does_not_matter() {
    let home = theatre(home::postgres(), 1).await;
    let name: String =
        sqlx::query_scalar("SELECT current_database()::text").fetch_one(&mut home.connect().await).await.unwrap();
    home.sql(format!("ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")).await;
    // The setting applies to new sessions.
    let strict = Bursar::options(home.postgres.as_ref().unwrap()).upkeep(None).open().await.unwrap();
    assert_eq!(book(&strict, 1).await.unwrap().remaining, 0);
}

/// A resource whose capacity is slow to read.
struct Slow;

static ENTERED: Semaphore = Semaphore::const_new(0);
static LEAVE: Semaphore = Semaphore::const_new(0);
static INSIDE_MAX: AtomicUsize = AtomicUsize::new(0);
static INSIDE: AtomicUsize = AtomicUsize::new(0);

impl Resource for Slow {
    type Key = usize;
    type Window = &'static str;
    const KIND: &'static str = "slow";

    async fn capacity_postgres(_: &mut PgConnection, _: &usize, _: &&'static str) -> Result<i64, Failure> {
        INSIDE_MAX.fetch_max(INSIDE.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        ENTERED.add_permits(1);
        LEAVE.acquire().await?.forget();
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        Ok(1)
    }
}

#[tokio::test]
async fn waiting_reservations_leave_connections_to_others() {
    let home = home::postgres().open().await;
    home.budgets(&["room"]).await;
    let mut bookers = JoinSet::new();
    for show in 0..20 {
        let slow = home.bursar.reservations::<Slow>();
        bookers.spawn(async move { slow.hold(&show, &"tonight", 1, CHECKOUT).await.map(drop) });
    }
    ENTERED.acquire_many(4).await.unwrap().forget();
    for _ in 0..20 {
        home.bursar.ledger().post("room", 1).await.unwrap();
    }
    assert_eq!(INSIDE_MAX.load(Ordering::SeqCst), 4, "other reservations have no connection");
    LEAVE.add_permits(20);
    for booked in bookers.join_all().await {
        booked.unwrap();
    }
}

/// A resource that violates a deferred constraint, so that the commit fails.
struct Doomed;

impl Resource for Doomed {
    type Key = &'static str;
    type Window = &'static str;
    const KIND: &'static str = "doomed";

    async fn capacity_postgres(conn: &mut PgConnection, _: &&'static str, _: &&'static str) -> Result<i64, Failure> {
        sqlx::query("INSERT INTO once VALUES (1)").execute(conn).await?;
        Ok(1)
    }
}

#[tokio::test]
async fn a_commit_that_the_server_refuses_has_a_known_outcome() {
    let home = home::postgres().open().await;
    home.sql("CREATE TABLE once (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)").await;
    home.sql("INSERT INTO once VALUES (1)").await;
    let mut notices = home.bursar.listen();
    let failed = home.bursar.reservations::<Doomed>().hold(&"it", &"now", 1, CHECKOUT).await.unwrap_err();
    let ReservationError::Other(Error::Store(error)) = &failed else { panic!("{failed:?}") };
    assert!(matches!(**error, StoreError::Unavailable { .. }), "{error:?}");
    assert_eq!(home.bursar.health().await.unwrap().position, 0, "nothing was written");
    home.budgets(&["room"]).await;
    assert_eq!(next_kind(&mut notices).await, "budget.defined", "listeners receive nothing of the failed commit");
}
