//! A quota for each caller of an API. The limits come with the request, from the caller's plan, so no budget is defined.

use std::sync::Arc;

use bursar::{Bursar, CalendarUnit, Error, Limit, ManualClock, Refusal, Span, Time, Violation, Window};
use bursar_examples::Failure;

/// The API's response.
#[derive(Debug, PartialEq)]
enum Reply {
    /// 200, with the units left in this hour.
    Ok { remaining: i64 },
    /// 429, with `Retry-After`.
    TooManyRequests { retry_after_secs: i64 },
    /// 413: larger than the limit itself.
    TooLarge,
}

/// Charges a request to its caller, or reports when to retry.
async fn admit(bursar: &Bursar, caller: &str, cost: i64, hourly: i64) -> Result<Reply, Error> {
    let limit = Limit::new(hourly, Window::utc(CalendarUnit::Hour));
    match bursar.command().charge_within(format!("api:{caller}"), cost, [limit]).submit().await {
        Ok(receipt) => Ok(Reply::Ok { remaining: receipt.done.posted[0].balances[0].remaining }),
        Err(Error::Refused(Refusal::Refused(violations))) => Ok(wait(&violations)),
        Err(error) => Err(error),
    }
}

/// The longest wait of all violations. It is an estimate: a release can free units sooner.
fn wait(violations: &[Violation]) -> Reply {
    let mut longest = 0;
    for violation in violations {
        match violation {
            Violation::Limit { possible: false, .. } => return Reply::TooLarge,
            Violation::Limit { retry_after: Some(span), .. } => longest = longest.max(span.millis()),
            _ => {}
        }
    }
    Reply::TooManyRequests { retry_after_secs: longest / 1_000 + i64::from(longest % 1_000 > 0) }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // A clock that the example sets itself: ten minutes before the full hour.
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_763_164_800_000_000 + 3_000_000_000)));
    let bursar = Bursar::options("sqlite::memory:").clock(clock.clone()).open().await?;

    for remaining in [2, 1, 0] {
        assert_eq!(admit(&bursar, "key-1", 1, 3).await?, Reply::Ok { remaining });
    }
    assert_eq!(admit(&bursar, "key-1", 1, 3).await?, Reply::TooManyRequests { retry_after_secs: 600 });
    assert_eq!(admit(&bursar, "key-1", 4, 3).await?, Reply::TooLarge);

    // Each caller has its own quota. A larger plan applies from the next request on.
    assert_eq!(admit(&bursar, "key-2", 1, 3).await?, Reply::Ok { remaining: 2 });
    assert_eq!(admit(&bursar, "key-1", 1, 100).await?, Reply::Ok { remaining: 96 });

    // The next hour begins with the clock. No job resets the quota.
    clock.advance(Span::from_secs(600));
    assert_eq!(admit(&bursar, "key-1", 1, 3).await?, Reply::Ok { remaining: 2 });

    bursar.close().await;
    Ok(())
}
