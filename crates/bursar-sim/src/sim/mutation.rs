//! Faults turned on one at a time: the judge must catch each.

use bursar_core::mutant::Mutant;

use super::{Failure, run};

/// The result of running worlds with a fault.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The fault.
    pub mutant: Mutant,
    /// The seed of the world that caught it, and the failure; `None` if it survived.
    pub caught: Option<(u64, Failure)>,
    /// The number of worlds run.
    pub runs: u64,
}

/// Returns whether only a power loss shows the fault.
#[must_use]
pub fn needs_power_loss(mutant: Mutant) -> bool {
    matches!(mutant, Mutant::SynchronousOff | Mutant::SynchronousNormal)
}

/// Returns the test that catches a fault which no simulated world can show: one that needs a real disk, or schedules.
#[must_use]
pub fn caught_elsewhere(mutant: Mutant) -> Option<&'static str> {
    match mutant {
        mutant if needs_power_loss(mutant) => Some("the tests of power loss, `tests/crash`"),
        Mutant::PruneUnarchived | Mutant::ArchiveAnswers | Mutant::BreakChain => {
            Some("the archive, in `tests/archive.rs`")
        }
        Mutant::KeepMovedRow | Mutant::KeepStaleRow => Some("moving, in `tests/moved.rs`"),
        Mutant::TickTwice | Mutant::SpendOldSlice | Mutant::OverspendSlice => Some("a rule, in `tests/mutants.rs`"),
        _ => None,
    }
}

/// Turns a fault on for the whole process and runs up to `seeds` worlds until one catches it.
#[must_use]
pub fn hunt(mutant: Mutant, seeds: u64, commands: u64) -> Hunt {
    let before = std::panic::take_hook();
    // Panics caused by the fault are caught; their messages would only be noise.
    std::panic::set_hook(Box::new(|_| {}));
    Mutant::switch(Some(mutant));
    let mut hunt = Hunt { mutant, caught: None, runs: 0 };
    for seed in 0..seeds {
        hunt.runs += 1;
        if let Some(failure) = run(seed, commands).failure {
            hunt.caught = Some((seed, failure));
            break;
        }
    }
    Mutant::switch(None);
    std::panic::set_hook(before);
    hunt
}
