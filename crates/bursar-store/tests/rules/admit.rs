//! Admission: every limit of every scope along the chain must admit the charge, or nothing is charged.

use bursar_core::bounds::{CHARGES_MAX, JOBS_MAX, NAME_BYTES_MAX, REDEMPTIONS_MAX};
use bursar_core::name::Scope;
use bursar_core::request::{Charge, Command, Op, Redemption, Request, Settle};

use crate::story::{World, scope, story};

#[test]
fn an_expiry_that_cannot_make_room_is_no_estimate() {
    story(
        "
        define a 10/day                        => done
        hold h a=5                             => h held 1m: a 5/10 day@UTC
        commit h 20                            => committed, overrun: a -10/10 day@UTC
        define b 10/day                        => done
        hold small b=1                         => small held 1m: b 9/10 day@UTC
        hold large b=8                         => large held 1m: b 1/10 day@UTC
        commit large 30                        => committed, overrun: b -21/10 day@UTC
        post b=1                               => refused: b has 0 left of 10 (day@UTC), 1 requested, try again in 43200000 ms at the earliest
        ",
    );
}

#[test]
fn all_limits_of_a_scope_must_admit() {
    story(
        "
        define a 100/lifetime 10/day           => done
        hold h a=8                             => h held 1m: a 92/100 lifetime, a 2/10 day@UTC
        hold x a=3                             => refused: a has 2 left of 10 (day@UTC), 3 requested, try again in 60000 ms at the earliest
        hold x a=11                            => refused: a has 2 left of 10 (day@UTC), 11 requested, more than the limit itself
        hold x a=101                           => refused: a has 92 left of 100 (lifetime), 101 requested, more than the limit itself; a has 2 left of 10 (day@UTC), 101 requested, more than the limit itself
        hold k a=2                             => k held 1m: a 90/100 lifetime, a 0/10 day@UTC
        left a                                 => 90/100 lifetime, 0/10 day@UTC
        ",
    );
}

#[test]
fn a_charge_applies_to_every_ancestor_or_to_none() {
    story(
        "
        define org 100/lifetime                => done
        define team 50/lifetime parent=org     => done
        define agent 30/lifetime parent=team   => done
        define other 90/lifetime parent=org    => done
        hold h agent=20                        => h held 1m: agent 10/30 lifetime, team 30/50 lifetime, org 80/100 lifetime
        post other=60                          => posted: other 30/90 lifetime, org 20/100 lifetime
        hold x agent=25                        => refused: agent has 10 left of 30 (lifetime), 25 requested, try again in 60000 ms at the earliest; org has 20 left of 100 (lifetime), 25 requested, try again in 60000 ms at the earliest
        hold x agent=5 other=31                => refused: org has 20 left of 100 (lifetime), 36 requested, try again in 60000 ms at the earliest; other has 30 left of 90 (lifetime), 31 requested
        left agent                             => 10/30 lifetime
        left org                               => 20/100 lifetime
        commit h 12                            => committed: agent 18/30 lifetime, team 38/50 lifetime, org 28/100 lifetime
        ",
    );
}

#[test]
fn siblings_in_one_hold_add_up_on_their_parent() {
    story(
        "
        define org 100/lifetime                => done
        define a 90/lifetime parent=org        => done
        define b 90/lifetime parent=org        => done
        hold x a=60 b=60                       => refused: org has 100 left of 100 (lifetime), 120 requested, more than the limit itself
        hold h a=60 b=40                       => h held 1m: a 30/90 lifetime, org 0/100 lifetime, b 50/90 lifetime, org 0/100 lifetime
        commit h 5                             => hold h has 2 charges: give an actual for each scope
        commit h c=5                           => hold h has no charge on c
        commit h b=10                          => committed: a 30/90 lifetime, org 30/100 lifetime, b 80/90 lifetime, org 30/100 lifetime
        ",
    );
}

#[test]
fn a_scope_without_any_limit_is_unknown() {
    story(
        "
        hold x a=1                             => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        post a=0                               => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        credit a 1                             => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        freeze a                               => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        define a 5/lifetime parent=b           => scope b is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        define a 5/lifetime                    => done
        hold x a=1 b=1                         => scope b is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        left a                                 => 5/5 lifetime
        ",
    );
}

#[test]
fn limits_of_the_caller_apply_too() {
    story(
        "
        post a=3(5/lifetime)                   => posted: a 2/5 lifetime
        post a=3(5/lifetime)                   => refused: a has 2 left of 5 (lifetime), 3 requested
        post a=3(9/lifetime)                   => posted: a 3/9 lifetime
        post a=1(6/day)                        => refused: a has 0 left of 6 (day@UTC), 1 requested, try again in 43200000 ms at the earliest
        define a 10/lifetime                   => done
        post a=2(9/lifetime)                   => posted: a 2/10 lifetime, a 1/9 lifetime
        post a=2(9/lifetime)                   => refused: a has 1 left of 9 (lifetime), 2 requested
        post a=2                               => posted: a 0/10 lifetime
        ",
    );
}

#[test]
fn credits_make_room_above_the_limit() {
    story(
        "
        define a 10/lifetime                   => done
        credit a 5                             => credited, credit_exceeds_spend: a 15/10 lifetime
        hold h a=4                             => h held 1m: a 11/10 lifetime
        post a=15                              => refused: a has 11 left of 10 (lifetime), 15 requested, try again in 60000 ms at the earliest
        post a=16                              => refused: a has 11 left of 10 (lifetime), 16 requested, more than the limit itself
        post a=11                              => posted: a 0/10 lifetime
        ",
    );
}

#[test]
fn a_charge_of_zero_is_valid() {
    story(
        "
        define a 0/lifetime                    => done
        hold h a=0                             => h held 1m: a 0/0 lifetime
        post a=0                               => posted: a 0/0 lifetime
        commit h 0                             => committed: a 0/0 lifetime
        post a=1                               => refused: a has 0 left of 0 (lifetime), 1 requested, more than the limit itself
        credit a 0                             => credited: a 0/0 lifetime
        ",
    );
}

#[test]
fn charges_on_the_same_scope_are_merged() {
    story(
        "
        define a 10/lifetime                   => done
        hold x a=6 a=6                         => refused: a has 10 left of 10 (lifetime), 12 requested, more than the limit itself
        hold h a=4 a=3                         => h held 1m: a 3/10 lifetime
        commit h 5                             => committed: a 5/10 lifetime
        post a=1(9/lifetime) a=1(8/lifetime)   => posted: a 3/10 lifetime, a 2/9 lifetime, a 1/8 lifetime
        ",
    );
}

#[test]
fn invalid_amounts_are_refused() {
    story(
        "
        define a 9223372036854775807/lifetime        => done
        define b 9223372036854775807/lifetime parent=a => done
        define c 9223372036854775807/lifetime parent=a => done
        post a=-1                                    => charges[0].amount must not be negative
        credit a -1                                  => amount must not be negative
        hold x a=9223372036854775807 a=1             => the amount would take a balance of a beyond 64 bits
        hold x b=9223372036854775807 c=1             => the amount would take a balance of a beyond 64 bits
        post a=1(5/day)                              => posted: a 9223372036854775806/9223372036854775807 lifetime, a 4/5 day@UTC
        credit a 1                                   => credited: a 9223372036854775807/9223372036854775807 lifetime
        hold x a=9223372036854775806                 => the amount would take a balance of a beyond 64 bits
        hold h a=9223372036854775805                 => h held 1m: a 2/9223372036854775807 lifetime
        commit h -1                                  => actual must not be negative
        commit h                                     => committed: a 2/9223372036854775807 lifetime
        post a=3                                     => refused: a has 2 left of 9,223,372,036,854,775,807 (lifetime), 3 requested
        post a=1                                     => the amount would take a balance of a beyond 64 bits
        ",
    );
}

#[test]
fn spend_beyond_64_bits_is_refused() {
    story(
        "
        post a=9223372036854775807(9223372036854775807/day) => posted: a 0/9223372036854775807 day@UTC
        after 1d
        post a=1(5/day)                                     => the amount would take a balance of a beyond 64 bits
        ",
    );
}

#[test]
fn empty_and_oversize_commands_are_refused() {
    let charge = || Charge::new(scope("a"), 1);
    let hold = Settle::Hold { ttl: None };
    let redemption = |_| Redemption {
        purpose: "p".parse().unwrap(),
        subject: "s".parse().unwrap(),
        grant: bursar_core::id::GrantId(1),
        digest: bursar_core::grant::TokenDigest([0; 32]),
    };
    let job = bursar_core::job::JobSpec::new("q".parse().unwrap(), "k".parse().unwrap(), Default::default());
    let from_grant = bursar_core::job::JobSpec { payload_from_grant: true, ..job.clone() };
    let limits = vec!["1/day"; 9].into_iter().map(|_| bursar_core::budget::Limit::new(1, "day".parse().unwrap()));
    let cases = [
        (Command::default(), "charges must not be empty without a redemption, a job or a reference"),
        (
            Command { settle: hold, jobs: vec![job.clone()], ..Command::default() },
            "charges must not be empty: there is nothing to hold",
        ),
        (
            Command { settle: Settle::Job, charges: vec![charge()], ..Command::default() },
            "jobs must not be empty: no job would settle the hold",
        ),
        (
            Command { settle: Settle::Job, jobs: vec![job.clone()], ..Command::default() },
            "charges must not be empty: there is nothing for the job to settle",
        ),
        (
            Command { charges: vec![charge(); CHARGES_MAX + 1], ..Command::default() },
            "charges has 1001 entries; at most 1000 are allowed",
        ),
        (
            Command { redeem: (0..=REDEMPTIONS_MAX).map(redemption).collect(), ..Command::default() },
            "redeem has 101 entries; at most 100 are allowed",
        ),
        (
            Command { jobs: vec![job; JOBS_MAX + 1], ..Command::default() },
            "jobs has 1001 entries; at most 1000 are allowed",
        ),
        (
            Command { charges: vec![charge().within(limits)], ..Command::default() },
            "charges[0].limits has more than 8 entries",
        ),
        (
            Command { jobs: vec![from_grant], ..Command::default() },
            "jobs[0].payload_from_grant needs a redemption in the same command",
        ),
    ];
    for (command, problem) in cases {
        let answer = World::default().commit(vec![Request::from(Op::Submit(command))]).remove(0);
        assert_eq!(answer.unwrap_err().to_string(), problem);
    }
    let name = "x".repeat(NAME_BYTES_MAX + 1);
    assert_eq!(Scope::new(&name).unwrap_err().to_string(), "scope has 256 bytes; at most 255 are allowed");
}

#[test]
fn tenants_are_isolated() {
    story(
        "
        define a 10/lifetime                   => done
        hold h a=10                            => h held 1m: a 0/10 lifetime
        hold x a=1 tenant=other                => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        define a 5/lifetime tenant=other       => done
        post a=5 tenant=other                  => posted: a 0/5 lifetime
        commit h tenant=other                  => there is no hold h
        release h tenant=other                 => there is no hold h
        extend h 5s tenant=other               => there is no hold h
        credit a 1 h tenant=other              => there is no hold h
        freeze a tenant=other                  => done
        after 1m
        sweep tenant=other                     => swept 0
        state h                                => expired
        sweep                                  => swept 1
        left a                                 => 10/10 lifetime
        ",
    );
}
