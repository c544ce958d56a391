//! Maintenance continues when a row is corrupt or locked.

use std::collections::BTreeMap;
use std::time::Duration;

use bursar::sqlx::{self, Connection};
use bursar::{Budget, HoldId, HoldState, Limit, Payload, Removed, Rules, Span, Tenant, TenantRetention, Window};

use crate::home::{self, Home, Place, on_both_engines};

on_both_engines! {
    a_corrupt_hold_does_not_stop_the_sweep_of_others,
    a_corrupt_scope_does_not_stop_the_tidying_of_others,
    maintenance_steps_are_independent,
    rows_are_deleted_after_their_retention,
    rows_of_a_tenant_are_kept_for_its_own_time,
}

/// Places a hold on each scope, which expires in a second.
async fn short_holds(home: &Home, scopes: &[&str]) -> Vec<HoldId> {
    home.budgets(scopes).await;
    let mut placed = Vec::new();
    for scope in scopes {
        placed.push(home.bursar.ledger().hold(*scope, 1, Duration::from_secs(1)).await.unwrap().detach());
    }
    placed
}

/// Makes a row unreadable.
async fn damage_hold(home: &Home, hold: HoldId) {
    let (table, id) = (home.table("holds"), format!("{:032x}", hold.0));
    let broken = if home.postgres.is_some() {
        format!("UPDATE {table} SET data = '\\x00' WHERE id = '{id}'")
    } else {
        format!("UPDATE {table} SET data = x'00' WHERE hex(id) = upper('{id}')")
    };
    home.sql(broken).await;
}

async fn damage_scope(home: &Home, scope: &str) {
    let (table, bytes) = (home.table("scopes"), if home.postgres.is_some() { "'\\x00'" } else { "x'00'" });
    home.sql(format!("UPDATE {table} SET state = {bytes} WHERE scope = '{scope}'")).await;
}

/// Waits until a condition holds that background maintenance brings about.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let look = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.expect("the condition holds within a minute");
}

async fn a_corrupt_hold_does_not_stop_the_sweep_of_others(place: Place) {
    let home = place.open().await;
    let holds = short_holds(&home, &["a", "b", "c"]).await;
    damage_hold(&home, holds[1]).await;
    home.clock.advance(Span::from_secs(2));
    assert_eq!(home.bursar.sweep(500).await.unwrap().expired_count, 2);
    for good in [holds[0], holds[2]] {
        assert_eq!(home.bursar.ledger().find(good).await.unwrap().unwrap().state, HoldState::Expired);
    }
    home.bursar.sweep(500).await.expect_err("the sweep reports the corrupt hold");
}

async fn a_corrupt_scope_does_not_stop_the_tidying_of_others(place: Place) {
    let rules = Rules { postings_kept: Span::from_days(1), key_kept: Span::from_days(1), ..Rules::default() };
    let home = place.open_with(|options| options.rules(rules)).await;
    home.budgets(&["a", "b", "c"]).await;
    for scope in ["a", "b", "c"] {
        home.bursar.command().charge(scope, 1).key(scope).submit().await.unwrap();
    }
    home.clock.advance(Span::from_days(2));
    assert_eq!((home.count("postings").await, home.count("keys").await), (3, 3));
    damage_scope(&home, "b").await;
    home.bursar.tidy().await.expect_err("tidying reports the corrupt scope");
    assert_eq!(home.count("postings").await, 1, "the postings of the other scopes are rolled up");
    assert_eq!(home.count("keys").await, 0, "keys are deleted all the same");
}

async fn maintenance_steps_are_independent(place: Place) {
    let rules = Rules { postings_kept: Span::from_days(1), key_kept: Span::from_days(1), ..Rules::default() };
    let home = place.open_with(|options| options.rules(rules).upkeep(Some(Duration::from_millis(20)))).await;
    let holds = short_holds(&home, &["a"]).await;
    home.budgets(&["b"]).await;
    home.bursar.command().charge("b", 1).key("once").submit().await.unwrap();
    damage_hold(&home, holds[0]).await;
    home.clock.advance(Span::from_days(2));
    until(async || home.count("keys").await == 0).await;
    until(async || home.count("postings").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_hold_does_not_stop_the_sweep_of_others() {
    let home = home::postgres().open_with(|options| options.patience(Duration::from_millis(100))).await;
    let holds = short_holds(&home, &["a", "b", "c"]).await;
    let mut conn = home.connect().await;
    let mut theirs = conn.begin().await.unwrap();
    let lock = sqlx::query("SELECT 1 FROM bursar.holds WHERE id = $1::text::uuid FOR UPDATE");
    lock.bind(format!("{:032x}", holds[1].0)).execute(&mut *theirs).await.unwrap();
    home.clock.advance(Span::from_secs(2));
    assert_eq!(home.bursar.sweep(500).await.unwrap().expired_count, 2);
    theirs.rollback().await.unwrap();
    assert_eq!(home.bursar.sweep(500).await.unwrap().expired_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_assigned_without_readers() {
    let home = home::postgres().open_with(|options| options.upkeep(Some(Duration::from_millis(20)))).await;
    home.budgets(&["a"]).await;
    until(async || home.count("journal_new").await == 0).await;
    assert_eq!(home.count("journal_order").await, 1);
}

async fn rows_are_deleted_after_their_retention(place: Place) {
    let rules = Rules { holds_kept: Span::from_days(2), grants_kept: Span::from_days(3), ..Rules::default() };
    let home = place.open_with(|options| options.rules(rules)).await;
    let holds = short_holds(&home, &["a", "b", "c"]).await;
    home.bursar.grants().mint("upload", "session-1", Payload::default(), Duration::from_secs(60)).await.unwrap();
    home.clock.advance(Span::from_secs(61));
    assert_eq!(home.bursar.sweep(500).await.unwrap().expired_count, 3);
    damage_hold(&home, holds[1]).await;
    home.clock.advance(Span::from_days(2));
    home.bursar.tidy().await.unwrap();
    let found = async |hold| home.bursar.ledger().find(hold).await;
    assert!(found(holds[0]).await.unwrap().is_none() && found(holds[2]).await.unwrap().is_none());
    assert!(found(holds[1]).await.is_err(), "a corrupt row stays, and keeps no other");
    assert_eq!(home.bursar.removed(), Removed { holds: 2, ..Removed::default() });
    home.clock.advance(Span::from_days(1));
    home.bursar.tidy().await.unwrap();
    assert_eq!(home.bursar.removed(), Removed { holds: 2, grants: 1, ..Removed::default() });
}

async fn rows_of_a_tenant_are_kept_for_its_own_time(place: Place) {
    let own = TenantRetention { holds: Some(Span::from_days(4)), grants: Some(Span::ZERO), costs: None };
    let tenants = BTreeMap::from([(Tenant::new("acme").unwrap(), own)]);
    let rules = Rules { holds_kept: Span::from_days(2), grants_kept: Span::from_days(3), tenants, ..Rules::default() };
    let home = place.open_with(|options| options.rules(rules)).await;
    let mut holds = Vec::new();
    for bursar in [home.bursar.clone(), home.bursar.tenant("acme").unwrap()] {
        bursar.ledger().define("a", Budget::new([Limit::new(100, Window::Lifetime)])).await.unwrap();
        let held = bursar.ledger().hold("a", 5, Duration::from_secs(60)).await.unwrap();
        holds.push((bursar.clone(), held.detach()));
        bursar.grants().mint("upload", "session-1", Payload::default(), Duration::from_secs(60)).await.unwrap();
    }
    home.clock.advance(Span::from_secs(61));
    assert_eq!(home.bursar.sweep(500).await.unwrap().expired_count, 2);
    let left = async || {
        let mut left = Vec::new();
        for (bursar, hold) in &holds {
            left.push(bursar.ledger().find(*hold).await.unwrap().is_some());
            left.push(!bursar.grants().list(None, 10).await.unwrap().is_empty());
        }
        left
    };
    for (days, expected) in [
        (0, [true, true, true, false]),
        (2, [false, true, true, false]),
        (1, [false, false, true, false]),
        (1, [false, false, false, false]),
    ] {
        home.clock.advance(Span::from_days(days));
        home.bursar.tidy().await.unwrap();
        assert_eq!(left().await, expected, "{days} days later: holds and grants of all tenants, and of acme");
    }
}
