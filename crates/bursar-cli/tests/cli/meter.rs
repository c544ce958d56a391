//! Quotas: told and set from the command line, and what somebody is told who has none left.

use crate::backends::{Both, Served, TOKEN};
use crate::place::Place;

#[test]
fn quotas_are_the_same_over_a_server() {
    let mut both = Both::new();
    both.look(&["meter", "show", "bob"]);
    both.run(0, &["meter", "limit", "bob", "50", "--reason", "paid plan"], "");
    both.run(0, &["post", "agent:bob=30"], "");
    let told = both.run(0, &["meter", "show", "bob"], "");
    assert!(told[0].out.contains("hour@UTC") && told[0].out.contains("agent:bob"), "{}", told[0].out);
    both.make("left", "/remaining", &["meter", "show", "bob"], "");
    both.run(0, &["meter", "limit", "bob", "--limit", "40:day", "--limit", "35:lifetime", "--key", "k"], "");
    both.run(0, &["meter", "limit", "bob", "--limit", "40:day", "--limit", "35:lifetime", "--key", "k"], "");
    both.run(2, &["meter", "limit", "bob", "--json"], "");
    both.run(2, &["meter", "limit", "bob", "5", "--limit", "40:day", "--json"], "");
    both.run(2, &["meter", "limit", "", "5", "--json"], "");
}

#[test]
fn who_has_no_quota_left_is_refused_and_told_so() {
    let place = Place::ready();
    place.file("bursar.toml", "[meter]\nquota = [{ amount = 2, window = 'lifetime' }]\n");
    let made = place.json(&["token", "create", "shop", "--role", "user"]);
    let token = made["token"].as_str().unwrap();
    let (served, _) = Served::in_place(place, &[("BURSAR_OPERATOR_TOKEN", TOKEN)]);
    let ask = |token: &str, args: &[&str]| {
        served.place.run_in(&[("BURSAR_SERVER", &served.url), ("BURSAR_TOKEN", token)], args, "")
    };
    for _ in 0..2 {
        ask(token, &["budget", "list"]).ends(0);
    }
    let over = ask(token, &["budget", "list", "--json"]).ends(3);
    assert_eq!(over.problem()["type"], "/problems/quota-exceeded");
    let over = ask(token, &["budget", "list"]).ends(3);
    assert!(over.err.contains("bursar meter limit"), "{}", over.err);
    // The database tells of the same quota as the server over it.
    let shown = served.place.json(&["meter", "show", "user:shop"]);
    assert_eq!((&shown["limit"], &shown["remaining"]), (&2.into(), &0.into()));
    ask(TOKEN, &["meter", "limit", "user:shop", "5"]).ends(0);
    ask(token, &["budget", "list"]).ends(0);
}
