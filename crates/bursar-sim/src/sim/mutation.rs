//! Rules taken away one at a time: the judge must notice each.

use bursar_core::mutant::Mutant;

use super::{Failure, run};

/// What became of a fault.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The fault.
    pub mutant: Mutant,
    /// How it was caught, and in the world of which seed; `None` when it was not.
    pub caught: Option<(u64, Failure)>,
    /// Worlds that were run.
    pub runs: u64,
}

/// Whether a power loss shows a fault: it takes a real disk.
#[must_use]
pub fn is_of_the_disk(mutant: Mutant) -> bool {
    matches!(mutant, Mutant::SynchronousOff | Mutant::SynchronousNormal)
}

/// Who hunts a fault that no simulated world can show: it takes a real disk, or schedules, which no world has.
#[must_use]
pub fn hunted_elsewhere(mutant: Mutant) -> Option<&'static str> {
    match mutant {
        mutant if is_of_the_disk(mutant) => Some("the tests of power loss, `tests/crash`"),
        Mutant::TickTwice => Some("a rule, in `tests/mutants.rs`"),
        _ => None,
    }
}

/// Turns a fault on and runs world after world until it is caught, at most so many. The fault is on for the whole
/// process meanwhile.
#[must_use]
pub fn hunt(mutant: Mutant, seeds: u64, commands: u64) -> Hunt {
    let before = std::panic::take_hook();
    // What stumbles over the fault is caught, and tells enough.
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
