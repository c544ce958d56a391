//! `bursar config`, and the configuration of other commands.

use crate::workdir::{Workdir, text};

#[test]
fn config_check_shows_each_value_and_its_origin() {
    let dir = Workdir::empty();
    dir.file("operator", "a token of more than thirty-two characters\n");
    dir.file(
        "bursar.toml",
        "database = \"sqlite://here.db\"\noperator_token_file = \"operator\"\n\n[log]\nlevel = \"warn\"\n",
    );
    let env = [("BURSAR_LIMITS_REQUESTS", "7"), ("BURSAR_OTHER", "1")];
    let ran = dir.run_in(&env, &["config", "check", "--log-format", "json", "--json"], "").exits(0);
    assert!(ran.err.contains("BURSAR_OTHER"), "{}", ran.err);
    assert!(!ran.out.contains("thirty-two") && !ran.err.contains("thirty-two"), "{}", ran.out);
    let shown: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let find = |name: &str| {
        let all = shown["settings"].as_array().unwrap();
        let one = all.iter().find(|setting| setting["setting"] == name).unwrap();
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
fn a_database_password_is_never_printed() {
    let dir = Workdir::empty();
    let env = [("BURSAR_DATABASE", "postgres://me:swordfish@127.0.0.1:1/db?connect_timeout=1")];
    let check = dir.run_in(&env, &["config", "check"], "").exits(0);
    assert!(check.out.contains("postgres://me:…@127.0.0.1:1/db"), "{}", check.out);
    for args in
        [&["budget", "list"][..], &["serve"], &["doctor"], &["backup", "x"], &["verify", "--json"], &["migrate"]]
    {
        let ran = dir.run_in(&env, args, "").exits(6);
        assert!(!ran.out.contains("swordfish") && !ran.err.contains("swordfish"), "{args:?}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn every_command_reads_the_file_and_reports_its_errors() {
    let dir = Workdir::empty();
    dir.file("bursar.toml", "database = \"sqlite://here.db\"\n");
    dir.run(&["migrate"]).exits(0);
    assert!(dir.0.path().join("here.db").exists());
    dir.run(&["budget", "list"]).exits(0);
    dir.file("other.toml", "database = \"sqlite://there.db\"\n");
    dir.run(&["budget", "list", "--config", "other.toml"]).exits(1);
    dir.run_in(&[("BURSAR_CONFIG", "other.toml")], &["budget", "list"], "").exits(1);
    dir.run(&["budget", "list", "--config", "other.toml", "--database", "sqlite://here.db"]).exits(0);
    dir.problem(2, &["budget", "list", "--config", "gone.toml"]);
    dir.file("bursar.toml", "\n[limits]\nrequests = -1\n");
    for args in [&["budget", "list"][..], &["serve"], &["config", "check"]] {
        let problem = dir.problem(2, args);
        let detail = "bursar.toml:3: limits.requests is \"-1\"; it must be a whole number from 1 to 1000000";
        assert_eq!((text(&problem["detail"]), text(&problem["field"])), (detail, "limits.requests"));
    }
    // Commands that need no configuration still work.
    dir.run(&["openapi"]).exits(0);
    dir.run(&["config", "table"]).exits(0);
}
