//! Every rule that can be taken away is missed.
//!
//! A fault is on for a whole process: these tests have one of their own, and are one test.

use std::path::Path;

use bursar_core::mutant::Mutant;
use bursar_sim::sim::mutation::{hunt, is_simulated};
use bursar_sim::sim::run;

#[test]
fn every_fault_is_caught_and_without_one_nothing_is() {
    for mutant in Mutant::ALL.iter().copied().filter(|mutant| is_simulated(*mutant)) {
        assert!(is_consulted(mutant), "no place asks whether {mutant:?} is on");
        let hunt = hunt(mutant, 400, 600);
        assert!(hunt.caught.is_some(), "{} survived {} worlds", mutant.name(), hunt.runs);
    }
    for seed in 0..3 {
        assert!(run(seed, 600).failure.is_none(), "with all faults off, seed {seed}");
    }
    let document = read(&root().join("docs/simulation.md"));
    for mutant in Mutant::ALL {
        let line = format!("| `{}` | {} |", mutant.name(), mutant.about().trim());
        assert!(document.contains(&line), "docs/simulation.md lacks: {line}");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate stands in the workspace")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether some source asks whether the fault is on.
fn is_consulted(mutant: Mutant) -> bool {
    let question = format!("Mutant::{mutant:?}.on()");
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && read(&path).contains(&question) {
                return true;
            }
        }
    }
    false
}
