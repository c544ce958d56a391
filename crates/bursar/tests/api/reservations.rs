//! Reservations whose capacity is in a table of the application.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bursar::sqlx::{self, Connection, PgConnection};
use bursar::{
    Bursar, Error, HoldId, HoldState, NotEnded, Refusal, ReleaseReason, Reservation, ReservationChange,
    ReservationError, ReservationKernel, Resource, Span, StoreError, rusqlite,
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

    fn capacity_sqlite(&self, conn: &rusqlite::Connection, show: &String, night: &String) -> Result<i64, Failure> {
        let sql = "SELECT seats FROM shows WHERE name = ?1 AND night = ?2";
        Ok(conn.query_row(sql, (show, night), |row| row.get(0))?)
    }

    async fn capacity_postgres(&self, conn: &mut PgConnection, show: &String, night: &String) -> Result<i64, Failure> {
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
    bursar.reservations(Seats).hold(&"hamlet".into(), &"monday".into(), amount, CHECKOUT).await
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
    a_handle_survives_a_refusal_and_ends_once,
    an_application_can_count_rows_of_its_own,
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
    let held: Vec<Reservation> = held.into_iter().map(Result::unwrap).collect();
    let mut left: Vec<i64> = held.iter().map(Reservation::remaining).collect();
    left.sort_unstable();
    assert_eq!(left, (0..20).collect::<Vec<i64>>());
    let scope = home.bursar.reservations(Seats).scope(&"hamlet".into(), &"monday".into()).unwrap();
    assert_eq!(home.bursar.ledger().live(&scope, None, 100).await.unwrap().len(), 20);
    assert!(home.bursar.verify().await.unwrap().is_ok());
}

async fn a_shortage_reports_what_is_available(place: Place) {
    let home = theatre(place, 3).await;
    let two = book(&home.bursar, 2).await.unwrap();
    assert_eq!(two.remaining(), 1);
    assert_eq!(shortage(book(&home.bursar, 2).await.unwrap_err()), (2, 1, 3));
    assert_eq!(book(&home.bursar, 1).await.unwrap().remaining(), 0);
    drop(two);
}

async fn settled_and_unknown_reservations_have_different_errors(place: Place) {
    let home = theatre(place, 3).await;
    let seats = home.bursar.reservations(Seats);
    let (ann, bob) = (book(&home.bursar, 1).await.unwrap().detach(), book(&home.bursar, 1).await.unwrap().detach());
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
        home.bursar.tenant("other").unwrap().reservations(Seats).commit(ann).await.unwrap_err(),
    ] {
        assert!(matches!(error, ReservationError::NotFound { id } if id == unknown || id == ann), "{error:?}");
    }
}

async fn late_commits_and_overruns_are_refused(place: Place) {
    let home = theatre(place, 3).await;
    let seats = home.bursar.reservations(Seats);
    let ann = book(&home.bursar, 1).await.unwrap().detach();
    let over = home.bursar.ledger().commit(ann, 2).await.unwrap_err();
    assert!(matches!(over, Error::Refused(Refusal::OverrunRefused { held: 1, actual: 2, .. })), "{over}");
    let bob = book(&home.bursar, 2).await.unwrap().detach();
    home.clock.advance(Span::from(CHECKOUT));
    for id in [ann, bob] {
        assert_eq!(conflict(seats.commit(id).await.unwrap_err()), (id, HoldState::Held, HoldState::Expired));
        assert_eq!(conflict(seats.extend(id, CHECKOUT).await.unwrap_err()), (id, HoldState::Held, HoldState::Expired));
    }
    assert_eq!(book(&home.bursar, 3).await.unwrap().remaining(), 0, "an expired reservation stops counting at once");
}

async fn a_changed_capacity_applies_to_the_next_hold(place: Place) {
    let home = theatre(place, 3).await;
    book(&home.bursar, 3).await.unwrap().detach();
    home.sql("UPDATE shows SET seats = 5").await;
    let fourth = book(&home.bursar, 1).await.unwrap();
    assert_eq!(fourth.remaining(), 1);
    fourth.detach();
    home.sql("UPDATE shows SET seats = 2").await;
    assert_eq!(shortage(book(&home.bursar, 1).await.unwrap_err()), (1, 0, 2), "the capacity is below what is reserved");
}

async fn expired_reservations_are_swept(place: Place) {
    let home = theatre(place, 3).await;
    let seats = home.bursar.reservations(Seats);
    let mut ann = book(&home.bursar, 1).await.unwrap();
    let expires_at = ann.expires_at();
    assert_eq!(ann.extend(Duration::from_secs(60)).await.unwrap(), expires_at.after(Span::from_secs(60)));
    assert_eq!(ann.expires_at(), expires_at.after(Span::from_secs(60)));
    let ann = ann.detach();
    home.clock.advance(Span::from(CHECKOUT));
    assert_eq!(seats.run_sweep_once(500).await.unwrap().expired_count, 0, "the reservation was extended");
    home.clock.advance(Span::from_secs(60));
    let swept = seats.run_sweep_once(500).await.unwrap();
    assert_eq!(swept.expired_count, 1);
    assert!(swept.scanned_at >= expires_at);
    assert_eq!(seats.run_sweep_once(500).await.unwrap().expired_count, 0);
    assert_eq!(home.bursar.ledger().find(ann).await.unwrap().unwrap().state, HoldState::Expired);
}

async fn every_error_message_starts_with_reservation(place: Place) {
    let home = theatre(place, 1).await;
    let seats = home.bursar.reservations(Seats);
    let ann = book(&home.bursar, 1).await.unwrap().detach();
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
    let home = theatre(place, 4).await;
    let seats = home.bursar.reservations(Seats);
    let mut events = seats.listen();
    // Holds of other kinds and tenants are no events of this kind.
    home.budgets(&["seat", "seat:x"]).await;
    home.bursar.ledger().hold("seat:x", 1, CHECKOUT).await.unwrap().detach();
    let [ann, bob, eve] = [
        book(&home.bursar, 1).await.unwrap().detach(),
        book(&home.bursar, 1).await.unwrap().detach(),
        book(&home.bursar, 2).await.unwrap().detach(),
    ];
    seats.commit(ann).await.unwrap();
    seats.release(bob, ReleaseReason::PaymentFailed).await.unwrap();
    seats.extend(eve, Duration::from_secs(1)).await.unwrap();
    home.clock.advance(Span::from_secs(3_600));
    assert_eq!(seats.run_sweep_once(500).await.unwrap().expired_count, 2, "eve's, and the hold of another kind");
    drop(book(&home.bursar, 1).await.unwrap());
    let mut heard = Vec::new();
    while heard.len() < 9 {
        let event = events.next().await.expect("open").expect("not lagging");
        assert_eq!((event.kind(), event.key.as_str(), event.window.as_str()), ("seat", "hamlet", "monday"));
        let change = match event.change {
            ReservationChange::Held { .. } => "held".to_owned(),
            ReservationChange::Committed { late } => format!("committed, late: {late}"),
            ReservationChange::Released { reason } => format!("released: {reason:?}"),
            ReservationChange::Extended { .. } => "extended".to_owned(),
            ReservationChange::Expired { .. } => "expired".to_owned(),
            other => panic!("unexpected change: {other:?}"),
        };
        heard.push((change, event.id, event.quantity));
    }
    let last = heard[7].1;
    let expected = [
        ("held", ann, 1),
        ("held", bob, 1),
        ("held", eve, 2),
        ("committed, late: false", ann, 1),
        ("released: Some(PaymentFailed)", bob, 1),
        ("extended", eve, 2),
        ("expired", eve, 2),
        ("held", last, 1),
        ("released: Some(Dropped)", last, 1),
    ];
    assert_eq!(heard, expected.map(|(change, id, quantity)| (change.to_owned(), id, quantity)));
}

async fn a_handle_survives_a_refusal_and_ends_once(place: Place) {
    let home = theatre(place, 3).await;
    let seats = home.bursar.reservations(Seats);
    let ann = book(&home.bursar, 1).await.unwrap();
    let id = ann.id();
    ann.commit().await.unwrap();
    assert_eq!(conflict(seats.commit(id).await.unwrap_err()), (id, HoldState::Held, HoldState::Committed));
    // Ended elsewhere: the handle has nothing left to do.
    let bob = book(&home.bursar, 1).await.unwrap();
    let id = bob.id();
    seats.release(id, "changed his mind").await.unwrap();
    let NotEnded { error, reservation } = bob.commit().await.unwrap_err();
    assert_eq!(conflict(error), (id, HoldState::Held, HoldState::Released));
    assert!(reservation.is_none());
    // Frozen: the handle comes back, and can be used when the scope is not frozen any more.
    let mut eve = book(&home.bursar, 1).await.unwrap();
    let scope = seats.scope(&"hamlet".into(), &"monday".into()).unwrap();
    home.bursar.ledger().freeze(&scope).await.unwrap();
    assert!(matches!(eve.extend(CHECKOUT).await.unwrap_err(), ReservationError::Other(_)));
    home.bursar.ledger().unfreeze(&scope).await.unwrap();
    eve.extend(CHECKOUT).await.unwrap();
    eve.release(ReleaseReason::Cancelled).await.unwrap();
    assert!(home.bursar.verify().await.unwrap().is_ok());
}

/// Rooms, which the application counts itself, and of which each hotel keeps some back.
struct Rooms {
    kept: i64,
}

impl Resource for Rooms {
    type Key = u32;
    type Window = String;
    const KIND: &'static str = "room";

    fn capacity_sqlite(&self, _: &rusqlite::Connection, hotel: &u32, _: &String) -> Result<i64, Failure> {
        Ok(i64::from(*hotel) - self.kept)
    }

    async fn capacity_postgres(&self, _: &mut PgConnection, hotel: &u32, _: &String) -> Result<i64, Failure> {
        Ok(i64::from(*hotel) - self.kept)
    }

    fn taken_sqlite(&self, conn: &rusqlite::Connection, hotel: &u32, night: &String) -> Result<Option<i64>, Failure> {
        let sql = "SELECT count(*) FROM stays WHERE hotel = ?1 AND night = ?2";
        Ok(Some(conn.query_row(sql, (hotel, night), |row| row.get(0))?))
    }

    async fn taken_postgres(
        &self,
        conn: &mut PgConnection,
        hotel: &u32,
        night: &String,
    ) -> Result<Option<i64>, Failure> {
        let sql = "SELECT count(*) FROM stays WHERE hotel = $1 AND night = $2";
        Ok(Some(sqlx::query_scalar(sql).bind(i64::from(*hotel)).bind(night).fetch_one(conn).await?))
    }
}

async fn an_application_can_count_rows_of_its_own(place: Place) {
    let home = place.open().await;
    home.sql("CREATE TABLE stays (hotel BIGINT, night TEXT)").await;
    home.sql("INSERT INTO stays VALUES (10, 'monday'), (10, 'monday'), (10, 'tuesday')").await;
    let rooms = home.bursar.reservations(Rooms { kept: 3 });
    let monday = "monday".to_owned();
    let first = rooms.hold(&10, &monday, 4, CHECKOUT).await.unwrap();
    assert_eq!(first.remaining(), 1, "10 rooms, 3 kept back, 2 stays of the application, 4 now");
    // Bursar's own count does not matter, because the application has not inserted the stays of the first.
    assert_eq!(shortage(rooms.hold(&10, &monday, 6, CHECKOUT).await.unwrap_err()), (6, 5, 7));
    home.sql("INSERT INTO stays VALUES (10, 'monday'), (10, 'monday'), (10, 'monday'), (10, 'monday')").await;
    assert_eq!(shortage(rooms.hold(&10, &monday, 2, CHECKOUT).await.unwrap_err()), (2, 1, 7));
    first.commit().await.unwrap();
    let scope = rooms.scope(&10, &monday).unwrap();
    assert_eq!((scope.as_str(), rooms.names(&scope)), ("room:10/monday", Some((10, monday))));
    let budget = home.bursar.ledger().budget(&scope).await.unwrap().unwrap();
    let posted: Vec<i64> = budget.balances.iter().map(|balance| balance.posted).collect();
    assert_eq!(posted, [4], "the ledger has it all the same");
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
    let seats: ReservationKernel<Seats> = home.bursar.reservations(Seats);
    let scope = |key: &str, window: &str| seats.scope(&key.into(), &window.into()).unwrap().to_string();
    assert_eq!(scope("hamlet", "2026-11-15"), "seat:hamlet/2026-11-15");
    assert_eq!(scope("x/1", "2"), "seat:x%2F1/2");
    let odd = home.bursar.reservations(Odd).scope(&"y".into(), &"1".into()).unwrap().to_string();
    let mut names =
        vec![scope("x/1", "2"), scope("x", "1/2"), scope("x%2F1", "2"), scope("x%1", "2"), scope("x:y", "1"), odd];
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 6, "{names:?}");
    for (key, window) in [("x/1", "2"), ("x", "1/2"), ("x%2F1", "2"), ("x%1", "2"), ("x:y", "1"), ("a%252Fb", "%2F")] {
        let (key, window) = (key.to_owned(), window.to_owned());
        let scope = seats.scope(&key, &window).unwrap();
        assert_eq!(seats.names(&scope), Some((key, window)), "{scope}");
        assert_eq!(home.bursar.reservations(Odd).names(&scope), None);
    }
    // Both shows can be filled independently.
    home.sql("INSERT INTO shows VALUES ('x/1', '2', 1), ('x', '1/2', 1)").await;
    for (key, window) in [("x/1", "2"), ("x", "1/2")] {
        let last = seats.hold(&key.into(), &window.into(), 1, CHECKOUT).await.unwrap();
        assert_eq!(last.remaining(), 0);
        last.commit().await.unwrap();
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
            let seats = bursar.reservations(Seats);
            let (hamlet, monday) = ("hamlet".to_owned(), "monday".to_owned());
            let ann = seats.hold_within(tx, &hamlet, &monday, 2, CHECKOUT)?;
            let bob = seats.hold_within(tx, &hamlet, &monday, 1, CHECKOUT)?;
            assert_eq!((ann.remaining(), bob.remaining()), (2, 1));
            let until = seats.extend_within(tx, ann.id(), Duration::from_secs(1))?;
            assert_eq!(until, ann.expires_at().after(Span::from_secs(1)));
            seats.commit_within(tx, ann.id())?;
            seats.release_within(tx, bob.id(), "changed his mind")?;
            let again = seats.commit_within(tx, bob.id()).unwrap_err();
            assert_eq!(conflict(again), (bob.id(), HoldState::Held, HoldState::Released));
            if keep { Ok(bob.id()) } else { Err(ReservationError::NotFound { id: bob.id() }) }
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
    let seats = home.bursar.reservations(Seats);
    let (hamlet, monday) = ("hamlet".to_owned(), "monday".to_owned());
    let mut conn = home.connect().await;
    for keep in [false, true] {
        let mut tx = conn.begin().await.unwrap();
        // The capacity is read in this transaction.
        sqlx::query("UPDATE shows SET seats = seats + 1").execute(&mut *tx).await.unwrap();
        let ann = seats.hold_in(&mut tx, &hamlet, &monday, 2, CHECKOUT).await.unwrap();
        let bob = seats.hold_in(&mut tx, &hamlet, &monday, 1, CHECKOUT).await.unwrap();
        assert_eq!((ann.remaining(), bob.remaining()), (2, 1));
        let (until, extended) = seats.extend_in(&mut tx, ann.id(), Duration::from_secs(1)).await.unwrap();
        assert_eq!(until, ann.expires_at().after(Span::from_secs(1)));
        let committed = seats.commit_in(&mut tx, ann.id()).await.unwrap();
        let released = seats.release_in(&mut tx, bob.id(), "changed his mind").await.unwrap();
        let again = seats.commit_in(&mut tx, bob.id()).await.unwrap_err();
        assert_eq!(conflict(again), (bob.id(), HoldState::Held, HoldState::Released));
        if keep {
            tx.commit().await.unwrap();
            home.bursar.announce([ann.receipt(), bob.receipt(), &extended, &committed, &released]);
            let history = home.bursar.journal().history(&bursar::Stream::Hold(bob.id()), 10).await.unwrap();
            assert_eq!(history[0].context.reason.as_deref(), Some("changed his mind"));
        } else {
            tx.rollback().await.unwrap();
            assert_eq!(home.bursar.ledger().find(bob.id()).await.unwrap(), None);
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
    assert_eq!(book(&strict, 1).await.unwrap().remaining(), 0);
}

/// A resource whose capacity is slow to read.
struct Slow;

static ENTERED: Semaphore = Semaphore::const_new(0);
static LEAVE: Semaphore = Semaphore::const_new(0);
static INSIDE_MAX: AtomicUsize = AtomicUsize::new(0);
static INSIDE: AtomicUsize = AtomicUsize::new(0);

impl Resource for Slow {
    type Key = usize;
    type Window = String;
    const KIND: &'static str = "slow";

    async fn capacity_postgres(&self, _: &mut PgConnection, _: &usize, _: &String) -> Result<i64, Failure> {
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
        let slow = home.bursar.reservations(Slow);
        bookers.spawn(async move { slow.hold(&show, &"tonight".into(), 1, CHECKOUT).await.map(drop) });
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
    type Key = String;
    type Window = String;
    const KIND: &'static str = "doomed";

    async fn capacity_postgres(&self, conn: &mut PgConnection, _: &String, _: &String) -> Result<i64, Failure> {
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
    let failed = home.bursar.reservations(Doomed).hold(&"it".into(), &"now".into(), 1, CHECKOUT).await.unwrap_err();
    let ReservationError::Other(Error::Store(error)) = &failed else { panic!("{failed:?}") };
    assert!(matches!(**error, StoreError::Unavailable { .. }), "{error:?}");
    assert_eq!(home.bursar.health().await.unwrap().position, 0, "nothing was written");
    home.budgets(&["room"]).await;
    assert_eq!(next_kind(&mut notices).await, "budget.defined", "listeners receive nothing of the failed commit");
}
