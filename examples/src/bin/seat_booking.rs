//! Seats of a show, never sold twice. Their number is in the application's own table and is read in the transaction
//! that reserves them.

use std::sync::Arc;
use std::time::Duration;

use bursar::{Bursar, HoldState, ManualClock, ReleaseReason, ReservationError, Resource, Span, Time};
use bursar_examples::Failure;

/// The seats of a show on one night.
struct Seats;

impl Resource for Seats {
    type Key = String;
    type Window = String;
    const KIND: &'static str = "seat";

    fn capacity_sqlite(&self, conn: &rusqlite::Connection, show: &String, night: &String) -> Result<i64, Failure> {
        let sql = "SELECT seats FROM shows WHERE name = ?1 AND night = ?2";
        Ok(conn.query_row(sql, (show, night), |row| row.get(0))?)
    }
}

const SHOW: &str = "hamlet";
const NIGHT: &str = "2026-11-15";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // A clock that the example sets itself. By default Bursar uses the system clock.
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_763_164_800_000_000)));
    let bursar = Bursar::options("sqlite::memory:").clock(clock.clone()).open().await?;
    set_seats(&bursar, 3).await?;

    let seats = bursar.reservations(Seats);
    let (show, night, checkout) = (SHOW.to_owned(), NIGHT.to_owned(), Duration::from_secs(600));
    let ann = seats.hold(&show, &night, 2, checkout).await?;
    assert_eq!(ann.remaining(), 1);

    // Two more do not fit. The error says how many are available.
    match seats.hold(&show, &night, 2, checkout).await {
        Err(ReservationError::Insufficient { requested: 2, available: 1, capacity: 3 }) => {}
        other => panic!("one seat is left: {other:?}"),
    }

    // Ann pays, so her hold is committed. Bob's payment fails.
    ann.commit().await?;
    let bob = seats.hold(&show, &night, 1, checkout).await?;
    bob.release(ReleaseReason::PaymentFailed).await?;

    // Cleo pays in another request, so the program keeps only the id of her reservation. She takes too long, and her hold expires. Dora
    // gets the seat, so Cleo's late commit is refused.
    let cleo = seats.hold(&show, &night, 1, checkout).await?.detach();
    clock.advance(Span::from_secs(601));
    let dora = seats.hold(&show, &night, 1, checkout).await?;
    match seats.commit(cleo).await {
        Err(ReservationError::ConflictingState { actual: HoldState::Expired, .. }) => {}
        other => panic!("the reservation has expired: {other:?}"),
    }
    dora.commit().await?;

    // The application adds seats in its own table, and the next reservation sees them.
    set_seats(&bursar, 5).await?;
    let last = seats.hold(&show, &night, 2, checkout).await?;
    assert_eq!(last.remaining(), 0);
    last.commit().await?;

    assert!(bursar.verify().await?.is_ok());
    bursar.close().await;
    Ok(())
}

/// Sets the number of seats in the application's own table, in the same database.
async fn set_seats(bursar: &Bursar, seats: i64) -> Result<(), Failure> {
    bursar
        .transaction(move |tx| {
            let conn = tx.connection();
            conn.execute_batch(
                "CREATE TABLE IF NOT EXISTS shows (name TEXT, night TEXT, seats INT, UNIQUE (name, night))",
            )?;
            let sql = "INSERT INTO shows VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET seats = excluded.seats";
            conn.execute(sql, (SHOW, NIGHT, seats))?;
            Ok(())
        })
        .await
}
