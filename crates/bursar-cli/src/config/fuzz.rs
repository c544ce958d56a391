//! Arbitrary configuration files are read or rejected, and never cause a panic.

use super::*;

#[test]
fn arbitrary_files_are_read_or_rejected_with_their_line() {
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
            Ok(mut loaded) => assert_shown_values_parse(&mut loaded.config),
            Err(problem) => {
                assert!(problem.detail.contains(&path.display().to_string()), "{text:?}: {}", problem.detail);
                assert!(!problem.detail.contains("thirty-two characters"), "the error must not contain the secret");
            }
        }
    });
}

/// Asserts that the shown value of each setting can be set again.
fn assert_shown_values_parse(config: &mut Config) {
    let mut again = Config::default();
    for setting in settings() {
        let is_hidden = setting.kind.is_secret()
            || matches!(setting.kind, Kind::PublicKey(_) | Kind::Database(_) | Kind::Server(_));
        let Some(shown) = setting.kind.show(config).filter(|_| !is_hidden) else { continue };
        setting.kind.put(&mut again, &shown).unwrap_or_else(|error| panic!("{} {error}", setting.name));
        assert_eq!(setting.kind.show(&mut again), Some(shown), "{}", setting.name);
    }
}
