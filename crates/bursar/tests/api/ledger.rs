//! Spend over a time range, also where single postings are no longer kept.

use bursar::{Error, Invalid, Refusal, Rules, Span, Time};

use crate::home::{Place, on_both_engines};

on_both_engines! {
    rolled_up_postings_are_never_silently_missing,
}

fn field(error: Error) -> String {
    match error {
        Error::Refused(Refusal::Invalid(Invalid { field, .. })) => field.into_owned(),
        other => panic!("the request should be invalid: {other}"),
    }
}

async fn rolled_up_postings_are_never_silently_missing(place: Place) {
    let rules = Rules { postings_kept: Span::from_days(2), ..Rules::default() };
    let home = place.open_with(|options| options.rules(rules)).await;
    home.budgets(&["room"]).await;
    let ledger = home.bursar.ledger();
    let begin = home.bursar.now().await.unwrap();
    ledger.post("room", 10).await.unwrap();
    assert_eq!(ledger.spent("room", begin, Time::NEVER).await.unwrap(), 10);
    home.clock.advance(Span::from_days(3));
    let later = home.bursar.now().await.unwrap();
    ledger.post("room", 20).await.unwrap();
    home.bursar.tidy().await.unwrap();
    assert_eq!(home.count("postings").await, 1, "the old posting is rolled up");
    home.clock.advance(Span::from_secs(60));
    ledger.post("room", 5).await.unwrap();
    let now = home.bursar.now().await.unwrap();

    assert_eq!(ledger.spent("room", later, Time::NEVER).await.unwrap(), 25);
    assert_eq!(ledger.spent("room", later, now).await.unwrap(), 20);
    assert_eq!(ledger.spent("room", now.before(Span::from_days(2)), Time::NEVER).await.unwrap(), 25);
    assert_eq!(field(ledger.spent("room", begin, Time::NEVER).await.unwrap_err()), "from");
    // The total is known, and later postings are kept, so their difference is known.
    assert_eq!(ledger.spent("room", Time::MIN, Time::NEVER).await.unwrap(), 35);
    assert_eq!(ledger.spent("room", Time::MIN, now).await.unwrap(), 30);
    assert_eq!(ledger.spent("room", Time::MIN, later).await.unwrap(), 10);
    let before = begin.after(Span::from_secs(1));
    assert_eq!(field(ledger.spent("room", Time::MIN, before).await.unwrap_err()), "to");
    assert_eq!(ledger.spent("nowhere", Time::MIN, Time::NEVER).await.unwrap(), 0);
    assert_eq!(ledger.spent("room", now, later).await.unwrap(), 0, "the range is empty");
}
