//! Tokens of operators: listed, replaced and taken back, over the server and on the database.

use crate::backends::{Served, TOKEN};
use crate::place::Place;

#[test]
fn tokens_of_operators_are_listed_replaced_and_revoked() {
    let (served, notes) = Served::in_place(Place::ready(), &[]);
    let first = notes.split_whitespace().find(|word| word.starts_with("bop_")).expect("the first token").to_owned();
    let ask = |token: &str, args: &[&str]| {
        served.place.run_in(&[("BURSAR_SERVER", &served.url), ("BURSAR_TOKEN", token)], args, "")
    };
    let listed = ask(&first, &["token", "list"]).ends(0);
    assert!(listed.out.contains("operator"), "{}", listed.out);
    // The database says the same.
    let known = served.place.json(&["token", "list"]);
    let id = known["items"][0]["id"].as_str().unwrap();
    assert_eq!((&known["items"][0]["role"], known["items"].as_array().unwrap().len()), (&"operator".into(), 1));
    let rotated = served.place.json(&["token", "rotate", id, "--overlap-ms", "3600000"]);
    let second = rotated["token"].as_str().unwrap();
    for token in [&first, second] {
        ask(token, &["verify"]).ends(0);
    }
    ask(second, &["token", "revoke", id]).ends(0);
    ask(&first, &["verify"]).ends(1);
    ask(second, &["verify"]).ends(0);
    let shown = ask(second, &["token", "show", id, "--json"]).ends(0);
    assert!(shown.out.contains("\"revoked\""), "{}", shown.out);
}

#[test]
fn a_token_that_is_set_later_takes_nothing_from_those_that_were_made() {
    let (served, notes) = Served::in_place(Place::ready(), &[]);
    let made = notes.split_whitespace().find(|word| word.starts_with("bop_")).expect("the first token").to_owned();
    let place = served.end();
    let (served, notes) = Served::in_place(place, &[("BURSAR_OPERATOR_TOKEN", TOKEN)]);
    assert!(!notes.contains("bop_"), "none is made where one is set: {notes}");
    for token in [TOKEN, &made] {
        served.place.run_in(&[("BURSAR_SERVER", &served.url), ("BURSAR_TOKEN", token)], &["verify"], "").ends(0);
    }
}
