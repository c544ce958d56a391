//! The nonces that this process has accepted lately, in bounded memory.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bursar_core::time::{Span, Time};

/// The most nonces in one of the two generations. Each takes about 40 bytes.
const GENERATION_MAX: usize = 100_000;

/// Remembers nonces for at least as long as their signatures are accepted, unless there are too many. What is forgotten early is still
/// refused by the idempotency key of its charge; only a meter that fails open would serve it.
pub(crate) struct SeenNonces {
    /// How long a signature can be accepted: twice the window.
    kept: Span,
    generations: Mutex<Generations>,
}

struct Generations {
    begun: Time,
    young: HashSet<[u8; 32]>,
    old: HashSet<[u8; 32]>,
}

impl SeenNonces {
    pub(crate) fn new(window: Span) -> SeenNonces {
        let generations = Generations { begun: Time::MIN, young: HashSet::new(), old: HashSet::new() };
        SeenNonces { kept: Span::from_micros(window.micros().saturating_mul(2)), generations: Mutex::new(generations) }
    }

    /// Remembers a nonce, given as its digest. Returns whether it is new.
    pub(crate) fn add(&self, nonce: [u8; 32], now: Time) -> bool {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let Generations { begun, young, old } = &mut *generations;
        if now > begun.after(self.kept) || young.len() >= GENERATION_MAX {
            // What is in neither generation was added more than `kept` ago.
            if now > begun.after(self.kept).after(self.kept) {
                young.clear();
            }
            (*old, *begun) = (std::mem::take(young), now);
        }
        !old.contains(&nonce) && young.insert(nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_nonce_is_new_once_within_twice_the_window() {
        let seen = SeenNonces::new(Span::from_secs(60));
        for (second, nonce, new) in [
            (1_000, 1, true),
            (1_000, 1, false),
            (1_119, 2, true),
            (1_120, 1, false),
            (1_121, 3, true),
            (1_238, 2, false),
            (1_239, 3, false),
            (9_000, 1, true),
            (9_000, 1, false),
        ] {
            assert_eq!(seen.add([nonce; 32], at(second)), new, "{nonce} at {second}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let seen = SeenNonces::new(Span::from_secs(60));
        for number in 0..(3 * GENERATION_MAX as u64) {
            let mut nonce = [0; 32];
            nonce[..8].copy_from_slice(&number.to_be_bytes());
            assert!(seen.add(nonce, at(1_000)));
        }
        let generations = seen.generations.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION_MAX);
    }
}
