//! Windows: which postings and holds count in each kind.

use bursar_core::budget::{Budget, Limit};
use bursar_core::decide::Rules;
use bursar_core::request::{Charge, Command, Op, Request};
use bursar_core::time::Span;
use bursar_core::window::Window;

use crate::story::{World, scope, story};

#[test]
fn a_rolling_window_is_exact_to_the_microsecond() {
    story(
        "
        define a 10/rolling:10s        => done
        post a=4                       => posted: a 6/10 rolling:10s
        after 5s
        post a=6                       => posted: a 0/10 rolling:10s
        after 4999998us
        left a                         => 0/10 rolling:10s
        after 1us
        left a                         => 4/10 rolling:10s
        post a=5                       => refused: a has 4 left of 10 (rolling:10s), 5 requested, try again in 5000 ms at the earliest
        post a=4                       => posted: a 0/10 rolling:10s
        ",
    );
}

#[test]
fn a_live_hold_counts_in_a_rolling_window() {
    story(
        "
        define a 10/rolling:10s        => done
        hold h a=6                     => h held 1m: a 4/10 rolling:10s
        after 30s
        left a                         => 4/10 rolling:10s
        commit h                       => committed: a 10/10 rolling:10s
        hold k a=6                     => k held 1m: a 4/10 rolling:10s
        after 5s
        commit k 9                     => committed, overrun: a 1/10 rolling:10s
        after 5s
        left a                         => 7/10 rolling:10s
        after 5s
        left a                         => 10/10 rolling:10s
        ",
    );
}

#[test]
fn a_hold_counts_in_the_calendar_window_of_its_placement() {
    // It is noon; the window of the hour ends at one.
    story(
        "
        define a 10/hour               => done
        after 3590s
        hold h a=6                     => h held 1m: a 4/10 hour@UTC
        hold k a=2 ttl=5s              => k held 5s: a 2/10 hour@UTC
        hold l a=1                     => l held 1m: a 1/10 hour@UTC
        after 10s
        left a                         => 10/10 hour@UTC
        commit h 9                     => committed, overrun: a 7/10 hour@UTC
        commit k                       => committed, committed_after_expiry: a 5/10 hour@UTC
        release l                      => released: a 5/10 hour@UTC
        after 1h
        left a                         => 10/10 hour@UTC
        ",
    );
}

#[test]
fn calendar_windows_reset_at_midnight_of_their_zone() {
    // At noon in UTC, midnight in Berlin is eleven hours away.
    story(
        "
        define a 5/day@Europe/Berlin 9/month => done
        post a=5                       => posted: a 0/5 day@Europe/Berlin, a 4/9 month@UTC
        after 10h
        post a=1                       => refused: a has 0 left of 5 (day@Europe/Berlin), 1 requested, try again in 3600000 ms at the earliest
        after 1h
        post a=4                       => posted: a 1/5 day@Europe/Berlin, a 0/9 month@UTC
        after 1d
        post a=1                       => refused: a has 0 left of 9 (month@UTC), 1 requested, try again in 1213200000 ms at the earliest
        after 337h
        post a=1                       => posted: a 4/5 day@Europe/Berlin, a 8/9 month@UTC
        ",
    );
}

#[test]
fn a_bucket_refills_evenly_and_never_above_its_capacity() {
    story(
        "
        define a 10/bucket:10:3/7s     => done
        post a=10                      => posted: a 0/10 bucket:10:3/7s
        after 2333332us
        left a                         => 0/10 bucket:10:3/7s
        after 1us
        left a                         => 0/10 bucket:10:3/7s
        after 1us
        left a                         => 1/10 bucket:10:3/7s
        post a=2                       => refused: a has 1 left of 10 (bucket:10:3/7s), 2 requested, try again in 2334 ms at the earliest
        after 1h
        left a                         => 10/10 bucket:10:3/7s
        post a=11                      => refused: a has 10 left of 10 (bucket:10:3/7s), 11 requested, more than the limit itself
        ",
    );
}

/// The hold is placed at the time at which the bucket is used again, so it counts in the bucket and may be returned to it.
#[test]
fn a_replaced_bucket_can_be_used_again_in_its_batch() {
    story(
        "
        define a 10/bucket:10:0/s              => done
        hold h a=4                             => h held 1m: a 6/10 bucket:10:0/s
        + define a 20/bucket:20:0/s            => done
        + post a=5(10/bucket:10:0/s)           => posted: a 11/20 bucket:20:0/s, a 1/10 bucket:10:0/s
        release h                              => released: a 15/20 bucket:20:0/s
        post a=6(10/bucket:10:0/s)             => refused: a has 5 left of 10 (bucket:10:0/s), 6 requested
        ",
    );
}

#[test]
fn a_bucket_gets_back_the_unspent_part_of_a_hold() {
    story(
        "
        define a 10/bucket:10:1/s      => done
        hold h a=8                     => h held 1m: a 2/10 bucket:10:1/s
        commit h 5                     => committed: a 5/10 bucket:10:1/s
        hold k a=5                     => k held 1m: a 0/10 bucket:10:1/s
        release k                      => released: a 5/10 bucket:10:1/s
        hold l a=5 ttl=5s              => l held 5s: a 0/10 bucket:10:1/s
        after 5s
        left a                         => 10/10 bucket:10:1/s
        commit l                       => committed, committed_after_expiry: a 5/10 bucket:10:1/s
        hold m a=5                     => m held 1m: a 0/10 bucket:10:1/s
        after 10s
        release m                      => released: a 10/10 bucket:10:1/s
        hold n a=5                     => n held 1m: a 5/10 bucket:10:1/s
        after 5s
        commit n                       => committed: a 10/10 bucket:10:1/s
        credit a 5                     => credited: a 10/10 bucket:10:1/s
        ",
    );
}

#[test]
fn a_changed_bucket_keeps_its_spend() {
    story(
        "
        define a 10/bucket:10:0/s      => done
        hold h a=4                     => h held 1m: a 6/10 bucket:10:0/s
        post a=3                       => posted: a 3/10 bucket:10:0/s
        define a 20/bucket:20:0/s      => done
        left a                         => 13/20 bucket:20:0/s
        define a 5/bucket:5:0/s        => done
        left a                         => -2/5 bucket:5:0/s
        post a=1                       => refused: a has 0 left of 5 (bucket:5:0/s), 1 requested, try again in 60000 ms at the earliest
        release h                      => released: a 2/5 bucket:5:0/s
        define a 10/bucket:10:0/s      => done
        left a                         => 7/10 bucket:10:0/s
        post a=1                       => posted: a 6/10 bucket:10:0/s
        + define a 20/bucket:20:0/s    => done
        left a                         => 16/20 bucket:20:0/s
        ",
    );
}

#[test]
fn a_new_window_counts_earlier_spend() {
    story(
        "
        post a=3(50/lifetime)          => posted: a 47/50 lifetime
        after 8s
        hold h a=4(50/lifetime)        => h held 1m: a 43/50 lifetime
        define a 10/rolling:10s 9/day   => done
        left a                         => 3/10 rolling:10s, 2/9 day@UTC
        after 2s
        left a                         => 6/10 rolling:10s, 2/9 day@UTC
        ",
    );
}

#[test]
fn a_scope_has_at_most_eight_windows_and_its_lifetime() {
    let mut world = World::default();
    for days in 1..=8 {
        let line = format!("post a=1(100/rolling:{days}s)");
        world.tell(&format!("{line} => posted: a {}/100 rolling:{days}s", 100 - days));
    }
    world.tell(
        "
        post a=1(100/rolling:9s)       => scope a would have more than 8 different windows: use those it has
        post a=1(100/rolling:8s)       => posted: a 91/100 rolling:8s
        post a=1(100/lifetime)         => posted: a 90/100 lifetime
        after 20d
        post a=1(100/rolling:1s)       => posted: a 99/100 rolling:1s
        after 12d
        post a=1(9/day,9/rolling:1s)   => posted: a 8/9 day@UTC, a 8/9 rolling:1s
        post a=1(9/month)              => posted: a 6/9 month@UTC
        ",
    );
    assert_eq!(world.scope_row("a").balances.len(), 1 + 3, "the lifetime and the recently used windows");
    let limits = (1..=9).map(|days| Limit::new(1, format!("rolling:{days}s").parse().unwrap()));
    let define = |limits: Vec<Limit>| Op::Define { scope: scope("b"), budget: Budget::new(limits) };
    let answer = world.commit(vec![Request::from(define(limits.collect()))]).remove(0);
    assert_eq!(answer.unwrap_err().to_string(), "limits has more than 8 entries");
}

#[test]
fn a_defined_limit_replaces_a_window_opened_by_charges() {
    let mut world = World::default();
    for seconds in 1..=8 {
        world.tell(&format!("post a=1(100/rolling:{seconds}s) => posted: a {}/100 rolling:{seconds}s", 100 - seconds));
    }
    world.tell(
        "
        define a 50/day                => done
        left a                         => 42/50 day@UTC
        post a=1(100/rolling:1s)       => scope a would have more than 8 different windows: use those it has
        post a=43                      => refused: a has 42 left of 50 (day@UTC), 43 requested, try again in 43200000 ms at the earliest
        ",
    );
}

#[test]
fn a_charge_of_zero_opens_no_window() {
    let mut world = World::default();
    for seconds in 1..=9 {
        world.tell(&format!("post a=0(9/rolling:{seconds}s) => posted: a 9/9 rolling:{seconds}s"));
    }
    assert_eq!(world.scope_row("a").balances.len(), 1, "only the lifetime");
}

#[test]
fn a_window_in_use_is_not_closed_for_another() {
    let mut world = World::default();
    world.tell("post a=1(9/rolling:1s) => posted: a 8/9 rolling:1s");
    world.tell("after 32d");
    for seconds in 2..=8 {
        let left = 10 - seconds;
        world.tell(&format!("post a=1(9/rolling:{seconds}s) => posted: a {left}/9 rolling:{seconds}s"));
    }
    world.tell(
        "
        post a=1(9/rolling:1s,9/day)   => scope a would have more than 8 different windows: use those it has
        post a=1(9/day)                => posted: a 1/9 day@UTC
        ",
    );
}

#[test]
fn a_window_closed_in_the_same_transaction_keeps_its_spend() {
    let mut world = World::default();
    let day = "5/rolling:40d";
    world.tell(&format!("post a=5({day}) => posted: a 0/{day}").replace("0/5/", "0/5 "));
    for days in 1..=7 {
        world.tell(&format!("post a=0(9/rolling:{days}s) => posted: a 4/9 rolling:{days}s"));
    }
    world.tell(
        "
        after 32d
        post a=0(9/day)                => posted: a 9/9 day@UTC
        + post a=1(5/rolling:40d)        => refused: a has 0 left of 5 (rolling:40d), 1 requested, try again in 691200000 ms at the earliest
        + post a=0(5/rolling:40d)        => posted: a 0/5 rolling:40d
        ",
    );
}

#[test]
fn a_window_longer_than_the_history_is_refused() {
    let rules = Rules { postings_kept: Span::from_days(2), ..Rules::default() };
    World::with(rules).tell(
        "
        post a=1(9/rolling:2d)         => posted: a 8/9 rolling:2d
        post a=1(9/rolling:2d1ms)      => window rolling:2d1ms reaches further back than postings are kept
        define a 9/month               => window month@UTC reaches further back than postings are kept
        ",
    );
}

#[test]
fn windows_without_a_text_form_are_refused() {
    let bucket = |refill, micros| Window::Bucket { capacity: 5, refill, length: Span::from_micros(micros) };
    let cases = [
        (Window::Rolling { length: Span::ZERO }, "limits[0].length_ms must be from 1ms to 400d (1 to 34560000000)"),
        (Window::Rolling { length: Span::from_micros(1_500) }, "limits[0].length_ms must be a whole number"),
        (bucket(1, 0), "limits[0].length_ms must be from 1ms to 400d (1 to 34560000000)"),
        (bucket(-1, 1_000), "limits[0].refill must not be negative"),
    ];
    for (window, problem) in cases {
        let budget = Budget::new([Limit::new(5, window)]);
        let answer = World::default().commit(vec![Request::from(Op::Define { scope: scope("a"), budget })]).remove(0);
        assert_eq!(answer.unwrap_err().to_string(), problem);
    }
}

#[test]
fn a_roll_up_during_folding_changes_no_answer() {
    let rules = Rules { postings_kept: Span::from_secs(10), ..Rules::default() };
    let mut world = World::with(rules);
    world.tell("define a 5000/rolling:10s => done");
    let spend = Op::Submit(Command { charges: vec![Charge::new(scope("a"), 1)], ..Command::default() });
    assert!(world.commit(vec![Request::from(spend); 4_500]).iter().all(Result::is_ok));
    world.tell(
        "
        left a                         => 500/5000 rolling:10s
        after 11s
        tidy a                         => done
        left a                         => 5000/5000 rolling:10s
        ",
    );
}
