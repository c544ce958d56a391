//! The configuration as every command reads it.

use crate::place::{Place, text};

#[test]
fn check_shows_each_value_and_where_it_came_from() {
    let place = Place::empty();
    place.file("operator", "a token of more than thirty-two characters\n");
    place.file(
        "bursar.toml",
        "database = \"sqlite://here.db\"\noperator_token_file = \"operator\"\n\n[log]\nlevel = \"warn\"\n",
    );
    let env = [("BURSAR_LIMITS_REQUESTS", "7"), ("BURSAR_OTHER", "1")];
    let ran = place.run_in(&env, &["config", "check", "--log-format", "json", "--json"], "").ends(0);
    assert!(ran.err.contains("BURSAR_OTHER"), "{}", ran.err);
    assert!(!ran.out.contains("thirty-two") && !ran.err.contains("thirty-two"), "{}", ran.out);
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let find = |name: &str| {
        let all = told["settings"].as_array().unwrap();
        let one = all.iter().find(|told| told["setting"] == name).unwrap();
        (one["value"].as_str().map(str::to_owned), text(&one["from"]).to_owned())
    };
    let is = |value: &str, from: &str| (Some(value.to_owned()), from.to_owned());
    assert_eq!(find("database"), is("sqlite://here.db", "bursar.toml:1"));
    assert_eq!(find("operator_token"), is("(secret)", "bursar.toml:2 (operator)"));
    assert_eq!(find("log.level"), is("warn", "bursar.toml:5"));
    assert_eq!(find("log.format"), is("json", "--log-format"));
    assert_eq!(find("limits.requests"), is("7", "BURSAR_LIMITS_REQUESTS"));
    assert_eq!(find("listen"), is("127.0.0.1:7440", "default"));
    assert_eq!(find("jwt.issuer"), (None, "default".to_owned()));
}

#[test]
fn a_password_is_told_to_nobody() {
    let place = Place::empty();
    let env = [("BURSAR_DATABASE", "postgres://me:swordfish@127.0.0.1:1/db?connect_timeout=1")];
    let check = place.run_in(&env, &["config", "check"], "").ends(0);
    assert!(check.out.contains("postgres://me:…@127.0.0.1:1/db"), "{}", check.out);
    for args in
        [&["budget", "list"][..], &["serve"], &["doctor"], &["backup", "x"], &["verify", "--json"], &["migrate"]]
    {
        let ran = place.run_in(&env, args, "").ends(6);
        assert!(!ran.out.contains("swordfish") && !ran.err.contains("swordfish"), "{args:?}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn every_command_goes_by_the_file_and_says_what_is_wrong_with_it() {
    let place = Place::empty();
    place.file("bursar.toml", "database = \"sqlite://here.db\"\n");
    place.run(&["migrate"]).ends(0);
    assert!(place.0.path().join("here.db").exists());
    place.run(&["budget", "list"]).ends(0);
    place.file("other.toml", "database = \"sqlite://there.db\"\n");
    place.run(&["budget", "list", "--config", "other.toml"]).ends(6);
    place.run_in(&[("BURSAR_CONFIG", "other.toml")], &["budget", "list"], "").ends(6);
    place.run(&["budget", "list", "--config", "other.toml", "--database", "sqlite://here.db"]).ends(0);
    place.problem(2, &["budget", "list", "--config", "gone.toml"]);
    place.file("bursar.toml", "\n[limits]\nrequests = -1\n");
    for args in [&["budget", "list"][..], &["serve"], &["config", "check"]] {
        let told = place.problem(2, args);
        let detail = "bursar.toml:3: limits.requests is \"-1\"; it must be a whole number from 1 to 1000000";
        assert_eq!((text(&told["detail"]), text(&told["field"])), (detail, "limits.requests"));
    }
    // What goes by no configuration is not kept from its work.
    place.run(&["openapi"]).ends(0);
    place.run(&["config", "table"]).ends(0);
}
