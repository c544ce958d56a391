//! The walk through what Bursar does.

use serde_json::json;

use crate::place::Place;

#[test]
fn dev_shows_the_whole_and_can_run_again_on_the_same_folder() {
    let place = Place::empty();
    let first = place.run(&["dev", "--no-serve"]).ends(0);
    for part in
        ["A metered command", "80000 came back", "refused: team:", "replayed: true", "hold.committed", "Try next"]
    {
        assert!(first.out.contains(part), "{part} is missing in\n{}", first.out);
    }
    assert!(!first.out.contains('\u{1b}'), "no colours");
    assert_eq!(first.err, "");
    let second = place.json(&["dev", "--no-serve"]);
    assert_eq!(second["replayed"]["replayed"], true);
    assert_eq!(second["replayed"]["id"], second["command"]["id"]);
    assert_eq!(second["refused"]["violations"].as_array().unwrap().len(), 2);
    assert_eq!(second["redeemed_again"]["violations"], json!([{ "kind": "grant", "purpose": "upload" }]));
    assert_eq!(second["verify"]["ok"], true);
    // Another folder, and the default database of the other commands is the one of the first.
    place.run(&["dev", "--no-serve", "--data", "elsewhere/deeper"]).ends(0);
    assert_eq!(place.json(&["budget", "list", "--prefix", "org:"])["items"].as_array().unwrap().len(), 2);
    place.run(&["verify"]).ends(0);
    place.run(&["doctor"]).ends(0);
}
