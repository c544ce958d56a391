//! Whatever is typed or stands in a file, nothing that reads it panics, and what is wrong is told with its place.

use super::*;
use crate::args::{charge, limit};

#[test]
fn limits_and_charges_are_read_as_they_are_written() {
    let samples = [
        "1000000:month@Europe/Berlin",
        "50000:rolling:3600000",
        "100:bucket:10:1000",
        "100:bucket:100:10:1000",
        "-5:week@UTC:sunday",
        "room=b=-5",
    ];
    bursar_fuzz::texts(&samples, |text| {
        if let Ok(read) = limit(text) {
            let again = limit(&format!("{}:{}", read.amount, read.window)).unwrap();
            assert_eq!(again, read, "{text:?}");
        }
        if let Ok((scope, amount)) = charge(text) {
            assert_eq!(charge(&format!("{scope}={amount}")), Ok((scope, amount)), "{text:?}");
        }
    });
}

#[test]
fn files_of_any_text_are_read_or_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursar.toml");
    std::fs::write(folder.path().join("token"), "a token of more than thirty-two characters").unwrap();
    let deep = format!("a = {}{}", "[".repeat(20_000), "]".repeat(20_000));
    let tables = format!("[{}a]\n", "a.".repeat(20_000));
    let samples = [
        "database = \"sqlite:///a.db\"\nlisten = \"127.0.0.1:1\"\n\n[limits]\nrequests = 5\nbody_ms = 1_000\n",
        "operator_token_file = \"token\"\n[log]\nformat = \"json\"\nlevel = \"info,bursar_server=debug\"\n",
        "[jwt]\nissuer = 'i'\nsecret_file = \"token\"\n[postgres]\nlisten = false\n[engine]\nbatch = 0x10\n",
        "[meter]\npatience_ms = 100\n[meter.costs]\nbase = 1\n[[meter.costs.operations]]\nname = \"a\"\npath = \"/a/{id}\"\nbase = 2\n",
        &deep,
        &tables,
    ];
    bursar_fuzz::texts(&samples, |text| {
        std::fs::write(&path, text).unwrap();
        match load_from(Some(&path), &[], &Flags::default()) {
            Ok(mut loaded) => shown_again(&mut loaded.config),
            Err(problem) => {
                assert!(problem.detail.contains(&path.display().to_string()), "{text:?}: {}", problem.detail);
                assert!(!problem.detail.contains("thirty-two characters"), "what a file has is not told");
            }
        }
    });
}

/// What is shown of a setting can be set again.
fn shown_again(config: &mut Config) {
    let mut again = Config::default();
    for setting in settings() {
        let hidden = setting.kind.is_secret() || matches!(setting.kind, Kind::PublicKey(_) | Kind::Database(_));
        let Some(shown) = setting.kind.show(config).filter(|_| !hidden) else { continue };
        setting.kind.put(&mut again, &shown).unwrap_or_else(|wrong| panic!("{} {wrong}", setting.name));
        assert_eq!(setting.kind.show(&mut again), Some(shown), "{}", setting.name);
    }
}
