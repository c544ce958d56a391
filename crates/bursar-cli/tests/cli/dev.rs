//! `bursar dev`.

use serde_json::json;

use crate::workdir::Workdir;

#[test]
fn dev_runs_the_demo_and_can_reuse_its_folder() {
    let dir = Workdir::empty();
    let first = dir.run(&["dev", "--no-serve"]).exits(0);
    for part in ["A command", "freed 80000", "refused: team:", "replayed: true", "hold.committed", "Try next"] {
        assert!(first.out.contains(part), "{part} is missing in\n{}", first.out);
    }
    assert!(!first.out.contains('\u{1b}'), "the output must have no colours");
    assert_eq!(first.err, "");
    let second = dir.json(&["dev", "--no-serve"]);
    assert_eq!(second["replayed"]["replayed"], true);
    assert_eq!(second["replayed"]["id"], second["command"]["id"]);
    assert_eq!(second["refused"]["violations"].as_array().unwrap().len(), 2);
    assert_eq!(second["redeemed_again"]["violations"], json!([{ "kind": "grant", "purpose": "upload" }]));
    assert_eq!(second["verify"]["ok"], true);
    // A run in another folder does not change the default database.
    dir.run(&["dev", "--no-serve", "--data", "elsewhere/deeper"]).exits(0);
    assert_eq!(dir.json(&["budget", "list", "--prefix", "org:"])["items"].as_array().unwrap().len(), 2);
    dir.run(&["verify"]).exits(0);
    dir.run(&["doctor"]).exits(0);
}
