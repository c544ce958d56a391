//! The parameters of a run. All but the number of commands follow from the seed.

use super::random::Random;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Requests to decide.
    pub(crate) commands: u64,
    pub(crate) nodes: usize,
    /// Lanes per node.
    pub(crate) lanes: usize,
    pub(crate) callers: usize,
    pub(crate) batch: usize,
    /// One writing transaction at a time, as on SQLite.
    pub(crate) one_writer: bool,
    pub(crate) key_kept_secs: u64,
    pub(crate) hold_ttl_ms: u64,
    /// One step in this many loses its connection; zero for none.
    pub(crate) lose_connection_in: u64,
    /// One message in this many is lost; zero for none.
    pub(crate) lose_message_in: u64,
    /// Mean time between crashes, in milliseconds; zero for none.
    pub(crate) crash_every_ms: u64,
    /// Mean time between jumps of the clock, in milliseconds; zero for none.
    pub(crate) jump_every_ms: u64,
    /// Mean time between stalls of the disk, in milliseconds; zero for none.
    pub(crate) stall_every_ms: u64,
    /// Callers with transactions of their own.
    pub(crate) transaction_callers: usize,
    pub(crate) scopes: usize,
    /// Budgets form two long chains, which together exceed the depth limit.
    pub(crate) long_chains: bool,
    pub(crate) tenants: usize,
    /// Workers; without any, jobs are only enqueued.
    pub(crate) workers: usize,
    /// Scopes that are not defined at the start: charges carry default budgets for them. One world in three has some, so that
    /// the runs of the other seeds did not change when this was added.
    pub(crate) undefined: usize,
    /// Whether callers and jobs use blobs. One world in three has some, so that the runs of the other seeds did not change when
    /// they were added.
    pub(crate) blobs: bool,
    /// How long ended holds are kept, if maintenance deletes them. One world in four does, so that the runs of the other seeds did
    /// not change when this was added.
    pub(crate) holds_kept_ms: Option<u64>,
}

impl Plan {
    pub(crate) fn of(seed: u64, commands: u64) -> Plan {
        let mut random = Random::new(seed.wrapping_mul(31).wrapping_add(7));
        let one_writer = random.one_in(4);
        let long_chains = random.one_in(8);
        let blobs = seed % 5 == 3 || seed % 6 == 3;
        let or_none = |random: &mut Random, n: u64| if random.one_in(4) { 0 } else { n };
        Plan {
            commands,
            // Blobs are collected on several nodes at once.
            nodes: (1 + random.below(3) as usize).max(if blobs { 2 } else { 1 }),
            lanes: if one_writer { 1 } else { 1 + random.below(3) as usize },
            callers: 20 + random.below(60) as usize,
            batch: *random.pick(&[3, 20, 200]),
            one_writer,
            key_kept_secs: *random.pick(&[300, 3_600, 86_400]),
            hold_ttl_ms: *random.pick(&[700, 60_000]),
            lose_connection_in: or_none(&mut random, 400),
            lose_message_in: or_none(&mut random, 25),
            crash_every_ms: or_none(&mut random, 1_500),
            jump_every_ms: or_none(&mut random, 700),
            stall_every_ms: or_none(&mut random, 3_000),
            transaction_callers: random.below(4) as usize,
            scopes: if long_chains { 12 } else { 3 + random.below(6) as usize },
            long_chains,
            tenants: 1 + random.below(2) as usize,
            workers: workers(seed),
            undefined: if seed % 3 == 1 { 3 } else { 0 },
            blobs,
            holds_kept_ms: (seed % 4 == 3).then_some(if seed % 8 == 3 { 300 } else { 2_000 }),
        }
    }
}

/// Returns the number of workers; two worlds in five have none. It has a random stream of its own, so that the runs of those
/// seeds did not change when workers were added.
fn workers(seed: u64) -> usize {
    let mut random = Random::new(seed.wrapping_mul(67).wrapping_add(13));
    if matches!(seed % 5, 0 | 4) { 0 } else { 2 + random.below(6) as usize }
}
