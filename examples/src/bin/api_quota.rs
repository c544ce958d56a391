//! A quota for each caller of an API. The limits come with the request, from the caller's plan: nothing is registered.

use std::sync::Arc;

use bursar::{Bursar, CalendarUnit, Error, Limit, ManualClock, Refusal, Span, Time, Violation, Window};
use bursar_examples::Failure;

/// What the API answers.
#[derive(Debug, PartialEq)]
enum Reply {
    /// 200, with what is left of the hour.
    Ok { remaining: i64 },
    /// 429, with `Retry-After`.
    TooManyRequests { retry_after_secs: i64 },
    /// 413: no wait would make it fit.
    TooLarge,
}

/// Charges a request to its caller, or says when to come back.
async fn admit(bursar: &Bursar, caller: &str, cost: i64, hourly: i64) -> Result<Reply, Error> {
    let limit = Limit::new(hourly, Window::utc(CalendarUnit::Hour));
    match bursar.command().charge_within(format!("api:{caller}"), cost, [limit]).submit().await {
        Ok(receipt) => Ok(Reply::Ok { remaining: receipt.done.posted[0].balances[0].remaining }),
        Err(Error::Refused(Refusal::Refused(violations))) => Ok(wait(&violations)),
        Err(error) => Err(error),
    }
}

/// The longest of the times to wait; each is a lower bound.
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
    // A clock that the example turns by hand: ten minutes to the full hour.
    let clock = Arc::new(ManualClock::at(Time::from_micros(1_763_164_800_000_000 + 3_000_000_000)));
    let bursar = Bursar::options("sqlite::memory:").clock(clock.clone()).open().await?;

    for remaining in [2, 1, 0] {
        assert_eq!(admit(&bursar, "key-1", 1, 3).await?, Reply::Ok { remaining });
    }
    assert_eq!(admit(&bursar, "key-1", 1, 3).await?, Reply::TooManyRequests { retry_after_secs: 600 });
    assert_eq!(admit(&bursar, "key-1", 4, 3).await?, Reply::TooLarge);

    // Other callers have quotas of their own, and a larger plan counts at the next request.
    assert_eq!(admit(&bursar, "key-2", 1, 3).await?, Reply::Ok { remaining: 2 });
    assert_eq!(admit(&bursar, "key-1", 1, 100).await?, Reply::Ok { remaining: 96 });

    // The hour turns by itself: there is no job that resets anything.
    clock.advance(Span::from_secs(600));
    assert_eq!(admit(&bursar, "key-1", 1, 3).await?, Reply::Ok { remaining: 2 });

    bursar.close().await;
    Ok(())
}
