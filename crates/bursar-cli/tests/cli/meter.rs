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
fn a_check_charges_a_caller_or_exits_with_3() {
    let mut both = Backends::new();
    let checked = both.run(0, &["meter", "check", "bob", "9k", "--key", "k"], "");
    assert!(checked[0].out.contains("charged 9,000") && checked[0].out.contains("hour@UTC"), "{}", checked[0].out);
    both.run(0, &["meter", "check", "bob", "9k", "--key", "k", "--json"], "");
    both.remember("left", "/remaining", &["meter", "show", "bob"], "");
    let over = both.run(3, &["meter", "check", "bob", "10001", "--json"], "");
    assert_eq!(over[0].problem()["type"], "/problems/quota-exceeded");
    both.run(
        0,
        &["meter", "check", "bob", "--path", "/claims?lens=a", "--method", "POST", "--payload-bytes", "5000"],
        "",
    );
    let shown = both.run(0, &["meter", "show", "bob", "--json"], "");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&shown[1].out).unwrap()["used"], 9_001);
    both.run(2, &["meter", "check", "bob", "--json"], "");
    both.run(2, &["meter", "check", "bob", "5", "--path", "/claims", "--json"], "");
    both.run(2, &["meter", "check", "bob", "5", "--method", "POST", "--json"], "");
    both.run(2, &["meter", "check", "bob", "--path", "claims", "--json"], "");
}

#[test]
fn the_default_quota_and_the_servers_own_meter_are_set_by_the_environment() {
    let dir = Workdir::ready();
    let token =
        |role: &str| dir.json(&["token", "create", "shop", "--role", role])["token"].as_str().unwrap().to_owned();
    let user = token("user");
    let env =
        [("BURSAR_OPERATOR_TOKEN", TOKEN), ("BURSAR_METER_QUOTA", "2:lifetime"), ("BURSAR_METER_BYPASS", "/v1/queues")];
    let ask = |served: &TestServer, token: &str, args: &[&str]| {
        served.dir.run_in(&[("BURSAR_SERVER", &served.url), ("BURSAR_TOKEN", token)], args, "")
    };
    // The default quota applies to checks, and not to the server's own callers.
    let (served, _) = TestServer::in_dir(dir, &env);
    for _ in 0..3 {
        ask(&served, &user, &["budget", "list"]).exits(0);
    }
    ask(&served, TOKEN, &["meter", "check", "bob", "3"]).exits(3);
    ask(&served, TOKEN, &["meter", "check", "bob", "2"]).exits(0);
    let dir = served.stop();
    // One variable turns the server's own meter on.
    let (served, _) = TestServer::in_dir(dir, &[&env[..], &[("BURSAR_METER_ENABLED", "true")]].concat());
    for _ in 0..2 {
        ask(&served, &user, &["budget", "list"]).exits(0);
    }
    ask(&served, &user, &["budget", "list"]).exits(3);
    ask(&served, &user, &["queue", "list"]).exits(0);
    ask(&served, &user, &["meter", "show"]).exits(0);
}

/// Many first calls of one caller, over two server processes on one database.
#[test]
fn two_processes_give_a_new_caller_one_default_quota() {
    let env = [("BURSAR_OPERATOR_TOKEN", TOKEN), ("BURSAR_METER_QUOTA", "10000:lifetime")];
    let (first, _) = TestServer::in_dir(Workdir::ready(), &env);
    let database = format!("sqlite://{}", first.dir.0.path().join("bursar-data/bursar.db").display());
    let env = [&env[..], &[("BURSAR_DATABASE", &*database)]].concat();
    let (second, _) = TestServer::in_dir(Workdir::empty(), &env);
    let exits = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..16)
            .map(|call| {
                let server = [&first, &second][call % 2];
                let env = [("BURSAR_SERVER", server.url.as_str()), ("BURSAR_TOKEN", TOKEN)];
                scope.spawn(move || server.dir.run_in(&env, &["meter", "check", "new", "1500"], "").code)
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
    });
    // 10,000 units admit six charges of 1,500.
    let count = |code: i32| exits.iter().filter(|exit| **exit == code).count();
    assert_eq!((count(0), count(3)), (6, 10), "{exits:?}");
    let quota = first.dir.json(&["meter", "show", "new"]);
    assert_eq!((&quota["used"], &quota["remaining"]), (&9_000.into(), &1_000.into()));
    first.dir.json(&["verify"]);
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
