//! What a run is made of. All but the number of commands follows from the seed.

use super::chance::Chance;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Requests to be decided.
    pub(crate) commands: u64,
    pub(crate) nodes: usize,
    /// Lanes of each node.
    pub(crate) lanes: usize,
    pub(crate) callers: usize,
    pub(crate) batch: usize,
    /// As on SQLite: one transaction at a time.
    pub(crate) one_writer: bool,
    pub(crate) key_kept_secs: u64,
    pub(crate) hold_ttl_ms: u64,
    /// One step in so many loses its connection; zero for none.
    pub(crate) lose_connection_in: u64,
    /// One message in so many is lost; zero for none.
    pub(crate) lose_message_in: u64,
    /// Milliseconds between two crashes, about; zero for none.
    pub(crate) crash_every_ms: u64,
    /// Milliseconds between two jumps of the clock, about; zero for none.
    pub(crate) jump_every_ms: u64,
    /// Milliseconds between two stalls of the disk, about; zero for none.
    pub(crate) stall_every_ms: u64,
    /// Callers that bring a transaction of their own.
    pub(crate) strangers: usize,
    pub(crate) scopes: usize,
    /// Budgets stand one below the other, at first in two chains, which together are longer than a chain may be.
    pub(crate) long_chains: bool,
    pub(crate) tenants: usize,
    /// Workers; without any, nobody touches jobs once they are enqueued.
    pub(crate) workers: usize,
    /// Scopes that nobody defines at first: charges bring their budgets along. One world in three has some; the others are as
    /// they were before there were such charges.
    pub(crate) undefined: usize,
}

impl Plan {
    pub(crate) fn of(seed: u64, commands: u64) -> Plan {
        let mut chance = Chance::new(seed.wrapping_mul(31).wrapping_add(7));
        let one_writer = chance.one_in(4);
        let long_chains = chance.one_in(8);
        let or_none = |chance: &mut Chance, n: u64| if chance.one_in(4) { 0 } else { n };
        Plan {
            commands,
            nodes: 1 + chance.below(3) as usize,
            lanes: if one_writer { 1 } else { 1 + chance.below(3) as usize },
            callers: 20 + chance.below(60) as usize,
            batch: *chance.pick(&[3, 20, 200]),
            one_writer,
            key_kept_secs: *chance.pick(&[300, 3_600, 86_400]),
            hold_ttl_ms: *chance.pick(&[700, 60_000]),
            lose_connection_in: or_none(&mut chance, 400),
            lose_message_in: or_none(&mut chance, 25),
            crash_every_ms: or_none(&mut chance, 1_500),
            jump_every_ms: or_none(&mut chance, 700),
            stall_every_ms: or_none(&mut chance, 3_000),
            strangers: chance.below(4) as usize,
            scopes: if long_chains { 12 } else { 3 + chance.below(6) as usize },
            long_chains,
            tenants: 1 + chance.below(2) as usize,
            workers: workers(seed),
            undefined: if seed % 3 == 1 { 3 } else { 0 },
        }
    }
}

/// Two worlds in five are without workers. Drawn apart, so that those are as they were before there were workers.
fn workers(seed: u64) -> usize {
    let mut chance = Chance::new(seed.wrapping_mul(67).wrapping_add(13));
    if matches!(seed % 5, 0 | 4) { 0 } else { 2 + chance.below(6) as usize }
}
