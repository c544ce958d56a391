//! `bursar dev`.

use std::process::Command;

use serde_json::json;

use crate::workdir::Workdir;

#[test]
fn the_tour_explains_the_steps_and_can_reuse_its_folder() {
    let dir = Workdir::empty();
    let first = dir.run(&["dev", "--tour"]).exits(0);
    for part in ["A command", "freed $0.08", "refused: team:", "replayed: true", "hold.committed", "Try next"] {
        assert!(first.out.contains(part), "{part} is missing in\n{}", first.out);
    }
    assert!(!first.out.contains('\u{1b}'), "the output must have no colours");
    for raw in ["00000", "0,000", "-ms", "micro"] {
        assert!(!first.out.contains(raw), "{raw} is not how people write it:\n{}", first.out);
    }
    assert_eq!(first.err, "");
    let second = dir.json(&["dev", "--tour"]);
    assert_eq!(second["replayed"]["replayed"], true);
    assert_eq!(second["replayed"]["id"], second["command"]["id"]);
    assert_eq!(second["refused"]["violations"].as_array().unwrap().len(), 2);
    assert_eq!(second["redeemed_again"]["violations"], json!([{ "kind": "grant", "purpose": "upload" }]));
    assert_eq!(second["verify"]["ok"], true);
    // A run in another folder does not change the default database.
    dir.run(&["dev", "--tour", "--data", "elsewhere/deeper"]).exits(0);
    assert_eq!(dir.json(&["budget", "list", "--prefix", "org:"])["items"].as_array().unwrap().len(), 2);
    dir.run(&["verify"]).exits(0);
    dir.run(&["doctor"]).exits(0);
}

#[test]
fn the_commands_that_the_tour_suggests_can_be_typed() {
    let dir = Workdir::empty();
    let told = dir.run(&["dev", "--tour", "--data", "a folder", "--tenant", "blue"]).exits(0).out;
    let (_, suggested) = told.split_once("Try next:\n").unwrap();
    let options = "--database 'sqlite://a folder/bursar.db' --tenant blue ";
    assert!(suggested.starts_with(&format!("   {} {options}", env!("CARGO_BIN_EXE_bursar"))), "{told}");
    let commands: Vec<&str> = suggested.lines().filter(|line| line.contains(options)).collect();
    assert_eq!(commands.len(), 8, "{told}");
    for command in commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(dir.0.path())
            .env("BURSAR_LISTEN", "127.0.0.1:0")
            .output();
        let output = output.unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{command}: {output:?}");
    }
}

#[test]
fn the_demo_stays_out_of_a_database_with_data_of_its_user() {
    let dir = Workdir::ready();
    dir.run(&["post", "requests=1", "--limit", "5:day"]).exits(0);
    let refused = dir.run(&["dev", "--tour"]).exits(5);
    assert!(refused.err.contains("has data that the demo did not write; nothing was changed"), "{}", refused.err);
    assert!(refused.err.contains("dev --tour --data bursar-demo`"), "{}", refused.err);
    assert_eq!(dir.json(&["journal", "list"])["items"].as_array().unwrap().len(), 1);
    // The tables alone are not data.
    Workdir::ready().run(&["dev", "--tour"]).exits(0);
}

#[test]
fn an_address_that_cannot_be_used_is_reported_before_anything_is_created() {
    let dir = Workdir::empty();
    let public = dir.run(&["dev", "--listen", "0.0.0.0:7440"]).exits(2);
    assert!(public.err.contains("loopback addresses only") && public.err.contains("`bursar serve`"), "{}", public.err);
    let database = dir.run(&["dev", "--database", "sqlite://mine.db"]).exits(2);
    assert!(
        database.err.contains("--data") && database.err.contains("bursar serve --database URL"),
        "{}",
        database.err
    );
    dir.run(&["dev", "--tour", "--quiet"]).exits(2);
    assert_eq!(std::fs::read_dir(dir.0.path()).unwrap().count(), 0, "the folder is still empty");
}
