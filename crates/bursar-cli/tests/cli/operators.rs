//! Operator tokens, over a server and on a database.

use crate::backends::{TOKEN, TestServer};
use crate::workdir::Workdir;

#[test]
fn operator_tokens_are_listed_rotated_and_revoked() {
    let (served, notes) = TestServer::in_dir(Workdir::ready(), &[]);
    let first = notes.split_whitespace().find(|word| word.starts_with("bop_")).expect("the first token").to_owned();
    let ask = |token: &str, args: &[&str]| {
        served.dir.run_in(&[("BURSAR_SERVER", &served.url), ("BURSAR_TOKEN", token)], args, "")
    };
    let listed = ask(&first, &["token", "list"]).exits(0);
    assert!(listed.out.contains("operator"), "{}", listed.out);
    // The database shows the same tokens.
    let known = served.dir.json(&["token", "list"]);
    let id = known["items"][0]["id"].as_str().unwrap();
    assert_eq!((&known["items"][0]["role"], known["items"].as_array().unwrap().len()), (&"operator".into(), 1));
    let rotated = served.dir.json(&["token", "rotate", id, "--overlap-ms", "3600000"]);
    let second = rotated["token"].as_str().unwrap();
    for token in [&first, second] {
        ask(token, &["verify"]).exits(0);
    }
    ask(second, &["token", "revoke", id]).exits(0);
    ask(&first, &["verify"]).exits(7);
    ask(second, &["verify"]).exits(0);
    let shown = ask(second, &["token", "show", id, "--json"]).exits(0);
    assert!(shown.out.contains("\"revoked\""), "{}", shown.out);
}

#[test]
fn configuring_an_operator_token_keeps_existing_tokens_valid() {
    let (served, notes) = TestServer::in_dir(Workdir::ready(), &[]);
    let made = notes.split_whitespace().find(|word| word.starts_with("bop_")).expect("the first token").to_owned();
    let dir = served.stop();
    let (served, notes) = TestServer::in_dir(dir, &[("BURSAR_OPERATOR_TOKEN", TOKEN)]);
    assert!(!notes.contains("bop_"), "no token is created if one is configured: {notes}");
    for token in [TOKEN, &made] {
        served.dir.run_in(&[("BURSAR_SERVER", &served.url), ("BURSAR_TOKEN", token)], &["verify"], "").exits(0);
    }
}
