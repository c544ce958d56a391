//! Expired grants.

use std::time::Duration;

use bursar::{Payload, Span};

use crate::home::{Place, on_both_engines};

on_both_engines! {
    purge_removes_only_expired_grants,
}

async fn purge_removes_only_expired_grants(place: Place) {
    let home = place.open().await;
    let grants = home.bursar.grants();
    let mint = |ttl| grants.mint("upload", "session-1", Payload::default(), Duration::from_secs(ttl));
    let [used, short, long] = [mint(60).await.unwrap(), mint(60).await.unwrap(), mint(61).await.unwrap()];
    let other = home.bursar.tenant("other").unwrap();
    other.grants().mint("upload", "session-1", Payload::default(), Duration::from_secs(60)).await.unwrap();
    grants.redeem("upload", "session-1", &used.token.unwrap()).await.unwrap();
    assert_eq!(grants.purge_expired().await.unwrap(), 0, "none has expired yet");

    home.clock.advance(Span::from_secs(60));
    assert_eq!(grants.purge_expired().await.unwrap(), 2);
    let left: Vec<_> = grants.list(None, 10).await.unwrap().into_iter().map(|grant| grant.id).collect();
    assert_eq!(left, [long.id]);
    assert_eq!(other.grants().list(None, 10).await.unwrap().len(), 1, "another tenant's grant is untouched");
    assert_eq!(grants.purge_expired().await.unwrap(), 0, "each is purged once");
    grants.redeem("upload", "session-1", &short.token.unwrap()).await.expect_err("the grant was purged");
    grants.redeem("upload", "session-1", &long.token.unwrap()).await.unwrap();
}
