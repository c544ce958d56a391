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

/// Whether a fault can be seen without a real disk. The others are hunted by the tests of power loss, `tests/crash`.
#[must_use]
pub fn is_simulated(mutant: Mutant) -> bool {
    !mutant.name().starts_with("synchronous-")
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
