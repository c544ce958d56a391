//! Holds: placement, commit, release, extension, expiry.

use bursar_core::answer::Answer;
use bursar_core::decide::Rules;
use bursar_core::request::{Charge, Command, Op, Request, Settle};
use bursar_core::time::Span;

use crate::story::{World, scope, story};

#[test]
fn a_commit_returns_what_was_not_spent() {
    story(
        "
        define a 10/lifetime           => done
        hold h a=6                     => h held 1m: a 4/10 lifetime
        commit h 2                     => committed: a 8/10 lifetime
        hold k a=6                     => k held 1m: a 2/10 lifetime
        commit k                       => committed: a 2/10 lifetime
        hold l a=2                     => l held 1m: a 0/10 lifetime
        release l                      => released: a 2/10 lifetime
        events                         => budget.defined, hold.placed, hold.committed, hold.placed, hold.committed, hold.placed, hold.released
        ",
    );
}

#[test]
fn a_settled_hold_cannot_be_settled_again() {
    story(
        "
        define a 10/lifetime           => done
        hold h a=6                     => h held 1m: a 4/10 lifetime
        commit h                       => committed: a 4/10 lifetime
        commit h 1                     => hold h is already committed
        release h                      => hold h is already committed
        extend h 5s                    => hold h is already committed
        hold k a=1                     => k held 1m: a 3/10 lifetime
        release k                      => released: a 4/10 lifetime
        commit k                       => hold k is already released
        release k                      => hold k is already released
        after 1h
        commit k                       => hold k is already released
        sweep                          => swept 0
        commit missing                  => there is no hold hold_7zzzzzzzzzzzzzzzzzzzzzzzzz
        left a                         => 4/10 lifetime
        ",
    );
}

#[test]
fn an_overrun_is_charged_in_full_or_refused() {
    story(
        "
        define a 10/lifetime                   => done
        define strict 10/lifetime overrun=refuse => done
        hold h a=6                             => h held 1m: a 4/10 lifetime
        commit h 15                            => committed, overrun: a -5/10 lifetime
        post a=1                               => refused: a has 0 left of 10 (lifetime), 1 requested
        hold k strict=6                        => k held 1m: strict 4/10 lifetime
        commit k 7                             => 7 cannot be committed on strict: k holds 6, and its policy refuses overruns
        commit k 6                             => committed: strict 4/10 lifetime
        credit a 10                            => credited: a 5/10 lifetime
        hold both a=1 strict=1                 => both held 1m: a 4/10 lifetime, strict 3/10 lifetime
        commit both a=2 strict=0               => 2 cannot be committed on a: both holds 1, and its policy refuses overruns
        commit both a=0 strict=1               => committed: a 5/10 lifetime, strict 3/10 lifetime
        ",
    );
}

#[test]
fn a_late_commit_is_charged_with_a_warning_or_refused() {
    story(
        "
        define a 1000/lifetime         => done
        hold h a=300                   => h held 1m: a 700/1000 lifetime
        hold s a=1                     => s held 1m: a 699/1000 lifetime
        after 1m
        commit h                       => committed, committed_after_expiry: a 700/1000 lifetime
        commit h                       => hold h is already committed
        sweep                          => swept 1
        commit s 2                     => committed, committed_after_expiry, overrun: a 698/1000 lifetime
        post a=698                     => posted: a 0/1000 lifetime
        post a=10                      => refused: a has 0 left of 1,000 (lifetime), 10 requested
        define strict 10/lifetime late=refuse => done
        hold k strict=6 ttl=5s         => k held 5s: strict 4/10 lifetime
        after 5s
        commit k                       => hold k expired at 2026-11-15T12:01:05.000011Z and its policy refuses late commits: place a new one
        left strict                    => 10/10 lifetime
        ",
    );
}

#[test]
fn charges_can_refuse_overruns_and_late_commits() {
    story(
        "
        hold h a=5(9/lifetime)!        => h held 1m: a 4/9 lifetime
        commit h 6                     => 6 cannot be committed on a: h holds 5, and its policy refuses overruns
        after 1m
        commit h                       => hold h expired at 2026-11-15T12:01:00.000001Z and its policy refuses late commits: place a new one
        ",
    );
}

#[test]
fn an_expired_hold_stops_counting_before_it_is_swept() {
    story(
        "
        define a 10/lifetime           => done
        hold h a=10 ttl=5s             => h held 5s: a 0/10 lifetime
        after 4999999us
        left a                         => 0/10 lifetime
        state h                        => held
        after 1us
        left a                         => 10/10 lifetime
        state h                        => expired
        hold k a=10 ttl=5s             => k held 5s: a 0/10 lifetime
        extend h 5s                    => hold h expired at 2026-11-15T12:00:05.000002Z: place a new one
        release h                      => hold h is already expired
        sweep                          => swept 1
        sweep                          => swept 0
        left a                         => 0/10 lifetime
        events                         => budget.defined, hold.placed, hold.placed, hold.expired
        ",
    );
}

#[test]
fn a_clock_set_back_does_not_revive_holds() {
    story(
        "
        define a 10/lifetime           => done
        hold h a=4 ttl=1m              => h held 1m: a 6/10 lifetime
        hold k a=6 ttl=5s              => k held 5s: a 0/10 lifetime
        after 10s
        post a=6                       => posted: a 0/10 lifetime
        back 30s
        post a=1                       => refused: a has 0 left of 10 (lifetime), 1 requested, try again in 50000 ms at the earliest
        left a                         => 0/10 lifetime
        sweep                          => swept 1
        commit k 0                     => committed, committed_after_expiry: a 0/10 lifetime
        commit h                       => committed: a 0/10 lifetime
        ",
    );
}

#[test]
fn an_extension_postpones_expiry_up_to_the_maximum_lifetime() {
    story(
        "
        define a 10/lifetime life=90s  => done
        hold h a=10                    => h held 1m: a 0/10 lifetime
        after 30s
        extend h 10s                   => extended to 40s
        after 35s
        state h                        => held
        extend h 1h                    => extended to 25s, ttl_lowered
        extend h 1s                    => hold h cannot be extended beyond 2026-11-15T12:01:30.000002Z, its longest life
        extend h 0s                    => by_ms must be at least 1ms (1 ms)
        extend h 31d                   => by_ms must be at most 30d (2592000000 ms)
        after 25s
        left a                         => 10/10 lifetime
        define b 10/lifetime life=10s  => done
        hold k b=1                     => k held 10s: b 9/10 lifetime
        ",
    );
}

#[test]
fn the_ttl_is_clamped_by_the_budgets() {
    story(
        "
        define a 10/lifetime                   => done
        define b 10/lifetime ttl=1s..2s..3s    => done
        hold h1 a=0                            => h1 held 1m: a 10/10 lifetime
        hold h2 a=0 ttl=1ms                    => h2 held 5s, ttl_raised: a 10/10 lifetime
        hold h3 a=0 ttl=1d key=k               => h3 held 1h, ttl_lowered: a 10/10 lifetime
        hold h3 a=0 ttl=1d key=k               => again: h3 held 1h, ttl_lowered: a 10/10 lifetime
        hold h9 a=0 ttl=1h                     => h9 held 1h: a 10/10 lifetime
        hold h4 b=0                            => h4 held 2s: b 10/10 lifetime
        hold h5 a=0 b=0                        => h5 held 3s: a 10/10 lifetime, b 10/10 lifetime
        hold h6 c=0(1/day)                     => h6 held 1m: c 1/1 day@UTC
        hold h7 c=0(1/day) ttl=1ms             => h7 held 1ms: c 1/1 day@UTC
        hold h8 c=0(1/day) ttl=30d             => h8 held 720h: c 1/1 day@UTC
        hold x c=0(1/day) ttl=2592000001ms     => ttl_ms must be from 1 to 2592000000 without a registered budget
        hold x a=0 ttl=999us                   => ttl_ms must be at least 1ms (1 ms)
        hold x a=0 ttl=0s                      => ttl_ms must be at least 1ms (1 ms)
        ",
    );
    let charges = vec![Charge::new(scope("a"), 1)];
    let ttl = Some(Span::from(std::time::Duration::MAX));
    let hold = Op::Submit(Command { charges, settle: Settle::Hold { ttl }, ..Command::default() });
    let answer = World::default().commit(vec![Request::from(hold)]).remove(0);
    let refused = answer.unwrap_err().to_string();
    assert!(refused.ends_with("(9223372036854776 ms)"), "{refused}");
}

#[test]
fn the_longest_ttl_of_an_installation_is_for_budgets_that_set_none() {
    let mut world = World::with(Rules { hold_ttl_max: Span::from_secs(90), ..Rules::default() });
    world.tell(
        "
        define a 10/lifetime                   => done
        define b 10/lifetime ttl=1s..2h        => done
        define c 10/lifetime parent=b          => done
        hold h1 a=0 ttl=2m                     => h1 held 90s, ttl_lowered: a 10/10 lifetime
        hold h2 b=0 ttl=2h                     => h2 held 2h: b 10/10 lifetime
        hold h3 c=0 ttl=2h                     => h3 held 90s, ttl_lowered: c 10/10 lifetime, b 10/10 lifetime
        define d 10/lifetime ttl=2s..1s..9s    => hold.ttl_ms must have 1 ≤ ttl_ms_min ≤ ttl_ms ≤ ttl_ms_max ≤ 30 days
        ",
    );
    let charges = vec![Charge::new(scope("a"), 0)];
    let ttl = Some(Span::from_secs(120));
    let hold = Op::Submit(Command { charges, settle: Settle::Hold { ttl }, ..Command::default() });
    let answer = world.commit(vec![Request::from(hold)]).remove(0).unwrap().answer;
    let Answer::Submitted(done) = answer else { panic!("{answer:?}") };
    let clamped = done.hold.unwrap().clamped.unwrap();
    assert_eq!(clamped.to_string(), "2m were requested; the hold got 1m30s, the most that its budgets allow");
}

#[test]
fn a_budget_without_a_ttl_uses_the_default() {
    let mut world = World::with(Rules { hold_ttl: Span::from_secs(120), ..Rules::default() });
    world.tell(
        "
        define org 10/lifetime                 => done
        define a 10/lifetime parent=org        => done
        define b 10/lifetime parent=org ttl=5s..30s..300s => done
        define c 10/lifetime parent=org ttl=5s..200s..300s => done
        define short 10/lifetime ttl=1s..10s   => done
        define long 10/lifetime ttl=150s..200s => done
        hold h1 org=0                          => h1 held 2m: org 10/10 lifetime
        hold h2 a=0                            => h2 held 2m: a 10/10 lifetime, org 10/10 lifetime
        hold h3 b=0                            => h3 held 30s: b 10/10 lifetime, org 10/10 lifetime
        hold h4 c=0                            => h4 held 200s: c 10/10 lifetime, org 10/10 lifetime
        hold h5 b=0 c=0                        => h5 held 30s: b 10/10 lifetime, org 10/10 lifetime, c 10/10 lifetime, org 10/10 lifetime
        hold h6 short=0                        => h6 held 10s: short 10/10 lifetime
        hold h7 long=0                         => h7 held 150s: long 10/10 lifetime
        hold h8 a=0 ttl=7s                     => h8 held 7s: a 10/10 lifetime, org 10/10 lifetime
        hold h9 free=0(1/day)                  => h9 held 2m: free 1/1 day@UTC
        ",
    );
}

#[test]
fn a_credit_is_dated_like_the_spend_it_reverses() {
    // It is noon; the window of the hour ends at one.
    story(
        "
        define org 100/hour            => done
        define a 20/hour parent=org    => done
        define b 20/hour parent=org    => done
        after 3590s
        hold late a=6 ttl=5s           => late held 5s: a 14/20 hour@UTC, org 94/100 hour@UTC
        hold over a=4 b=4              => over held 1m: a 10/20 hour@UTC, org 86/100 hour@UTC, b 16/20 hour@UTC, org 86/100 hour@UTC
        hold plain a=2                 => plain held 1m: a 8/20 hour@UTC, org 84/100 hour@UTC
        after 10s
        commit late                    => committed, committed_after_expiry: a 14/20 hour@UTC, org 94/100 hour@UTC
        commit over a=9 b=2            => committed, overrun: a 9/20 hour@UTC, org 91/100 hour@UTC, b 20/20 hour@UTC, org 91/100 hour@UTC
        commit plain                   => committed: a 9/20 hour@UTC, org 91/100 hour@UTC
        credit a 1 plain               => credited: a 9/20 hour@UTC, org 91/100 hour@UTC
        credit a 2 late                => credited: a 11/20 hour@UTC, org 93/100 hour@UTC
        credit a 3 over                => credited: a 14/20 hour@UTC, org 96/100 hour@UTC
        credit a 3 over                => credited: a 16/20 hour@UTC, org 96/100 hour@UTC
        credit a 3 over                => credited: a 16/20 hour@UTC, org 96/100 hour@UTC
        credit b 1 over                => credited: b 20/20 hour@UTC, org 96/100 hour@UTC
        credit a 9 late                => credited, credit_exceeds_spend: a 25/20 hour@UTC, org 105/100 hour@UTC
        ",
    );
}

#[test]
fn a_hold_is_settled_on_the_chain_it_was_placed_on() {
    story(
        "
        define old 10/lifetime                 => done
        define new 10/lifetime                 => done
        define a 10/lifetime parent=old        => done
        hold h a=6                             => h held 1m: a 4/10 lifetime, old 4/10 lifetime
        hold k a=1                             => k held 1m: a 3/10 lifetime, old 3/10 lifetime
        define a 10/lifetime parent=new        => done
        commit h 8                             => committed, overrun: a 1/10 lifetime, old 1/10 lifetime
        left new                               => 10/10 lifetime
        credit a 2 h                           => credited: a 3/10 lifetime, old 3/10 lifetime
        post a=2                               => posted: a 1/10 lifetime, new 8/10 lifetime
        freeze old                             => done
        extend k 5s                            => refused: old is frozen
        release k                              => released: a 2/10 lifetime, old 4/10 lifetime
        ",
    );
}

#[test]
fn a_credit_is_dated_like_its_hold_or_now() {
    // It is noon; the window of the hour ends at one.
    story(
        "
        define a 10/hour 20/lifetime           => done
        hold h a=6                             => h held 1m: a 4/10 hour@UTC, a 14/20 lifetime
        commit h                               => committed: a 4/10 hour@UTC, a 14/20 lifetime
        credit a 1 h                           => credited: a 5/10 hour@UTC, a 15/20 lifetime
        credit b 1 h                           => scope b is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        after 1h
        post a=10                              => posted: a 0/10 hour@UTC, a 5/20 lifetime
        credit a 2 h                           => credited: a 0/10 hour@UTC, a 7/20 lifetime
        credit a 3                             => credited: a 3/10 hour@UTC, a 10/20 lifetime
        freeze a                               => done
        credit a 1                             => credited: a 4/10 hour@UTC, a 11/20 lifetime
        ",
    );
}
