//! Worlds with fixed seeds pass every check, and a seed reproduces its world.

use std::process::Command;

use bursar_sim::sim::run;

#[test]
fn worlds_with_fixed_seeds_pass_every_check() {
    for seed in 0..24 {
        let summary = run(seed, 400);
        if let Some(failure) = summary.failure {
            panic!("seed {seed}, step {}: {}: {}", failure.step, failure.check, failure.what);
        }
        assert!(summary.decided >= 400, "seed {seed} decided {}", summary.decided);
        assert!(summary.refused < summary.decided * 4 / 5, "seed {seed} admits too few requests");
    }
}

#[test]
fn many_small_worlds_pass_every_check() {
    for seed in 1_000..1_120 {
        if let Some(failure) = run(seed, 120).failure {
            panic!("seed {seed}, step {}: {}: {}", failure.step, failure.check, failure.what);
        }
    }
}

/// Seeds that found a bug: a repeated request that waited for its first copy was refused for what the copy had done (0), a
/// raised trip limit lifted its freeze one transaction late (59), a rebuild changed scopes that were only read (10154), a job
/// that another request had removed from its waiting line was leased as its first (26), a batch that held a scope waited for the
/// namespace that it defined (105).
#[test]
fn seeds_that_found_a_bug_pass() {
    for (seed, commands) in [(0, 2_000), (59, 600), (10_154, 1_000), (26, 2_000), (20_501, 400), (105, 600)] {
        let failure = run(seed, commands).failure;
        assert!(failure.is_none(), "{seed}: {:?}", failure.map(|failure| (failure.check, failure.what)));
    }
}

#[test]
fn a_seed_reproduces_its_world() {
    for seed in [3, 5, 11] {
        let (one, two) = (run(seed, 300), run(seed, 300));
        assert_eq!((one.digest, one.millis, one.decided), (two.digest, two.millis, two.decided), "seed {seed}");
        assert_ne!(one.digest, run(seed + 1, 300).digest, "two seeds make different worlds");
    }
}

#[test]
fn a_seed_reproduces_its_world_in_another_process() {
    let output = |seed: &str| {
        let sim = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["--seed", seed, "--seeds", "2", "--commands", "300"])
            .output();
        let text = String::from_utf8(sim.expect("the simulator runs").stdout).expect("the output is text");
        text.lines().filter(|line| !line.starts_with("real time")).map(str::to_owned).collect::<Vec<_>>()
    };
    let first = output("7");
    assert!(first.iter().any(|line| line.starts_with("digest")), "{first:?}");
    // After a failure the output would cover fewer worlds than the digest below.
    assert!(!first.iter().any(|line| line.starts_with("FAILED")), "{first:?}");
    assert_eq!(first, output("7"));
    let digest =
        first.iter().find_map(|line| line.strip_prefix("digest          ")).expect("the digest was found above");
    let here = run(7, 300).digest.rotate_left(5) ^ run(8, 300).digest;
    assert_eq!(digest, format!("{here:016x}"), "the digests of two processes differ");
}
