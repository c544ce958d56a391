//! `bursar meter`, and the error of an exceeded quota.

use crate::backends::{Backends, TOKEN, TestServer};
use crate::workdir::Workdir;

#[test]
fn meter_commands_are_the_same_over_a_server() {
    let mut both = Backends::new();
    both.read(&["meter", "show", "bob"]);
    both.run(0, &["meter", "limit", "bob", "50", "--reason", "paid plan"], "");
    both.run(0, &["post", "agent:bob=30"], "");
    let shown = both.run(0, &["meter", "show", "bob"], "");
    assert!(shown[0].out.contains("hour@UTC") && shown[0].out.contains("agent:bob"), "{}", shown[0].out);
    both.remember("left", "/remaining", &["meter", "show", "bob"], "");
    both.run(0, &["meter", "limit", "bob", "--limit", "40:day", "--limit", "35:lifetime", "--key", "k"], "");
    both.run(0, &["meter", "limit", "bob", "--limit", "40:day", "--limit", "35:lifetime", "--key", "k"], "");
    both.run(2, &["meter", "limit", "bob", "--json"], "");
    both.run(2, &["meter", "limit", "bob", "5", "--limit", "40:day", "--json"], "");
    both.run(2, &["meter", "limit", "", "5", "--json"], "");
}

#[test]
fn an_exceeded_quota_is_refused_with_a_hint() {
    let dir = Workdir::ready();
    dir.file("bursar.toml", "[meter]\nquota = [{ amount = 2, window = 'lifetime' }]\n");
    let made = dir.json(&["token", "create", "shop", "--role", "user"]);
    let token = made["token"].as_str().unwrap();
    let (served, _) = TestServer::in_dir(dir, &[("BURSAR_OPERATOR_TOKEN", TOKEN)]);
    let ask = |token: &str, args: &[&str]| {
        served.dir.run_in(&[("BURSAR_SERVER", &served.url), ("BURSAR_TOKEN", token)], args, "")
    };
    for _ in 0..2 {
        ask(token, &["budget", "list"]).exits(0);
    }
    let over = ask(token, &["budget", "list", "--json"]).exits(3);
    assert_eq!(over.problem()["type"], "/problems/quota-exceeded");
    let over = ask(token, &["budget", "list"]).exits(3);
    assert!(over.err.contains("bursar meter limit"), "{}", over.err);
    // The database shows the same quota as the server.
    let shown = served.dir.json(&["meter", "show", "user:shop"]);
    assert_eq!((&shown["limit"], &shown["remaining"]), (&2.into(), &0.into()));
    ask(TOKEN, &["meter", "limit", "user:shop", "5"]).exits(0);
    ask(token, &["budget", "list"]).exits(0);
}
