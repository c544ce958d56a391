//! Default budgets of charges. They are registered for scopes without a budget, and replaced by definitions and by other defaults.

use crate::story::story;

#[test]
fn the_first_charge_registers_its_default_budget() {
    story(
        "
        post a=3[10/hour]                      => posted: a 7/10 hour@UTC
        left a                                 => 7/10 hour@UTC
        post a=3                               => posted: a 4/10 hour@UTC
        hold h a=4[10/hour]                    => h held 1m: a 0/10 hour@UTC
        post a=1[10/hour]                      => refused: a has 0 left of 10 (hour@UTC), 1 requested, try again in 60000 ms at the earliest
        commit h 2                             => committed: a 2/10 hour@UTC
        ",
    );
}

#[test]
fn a_refused_charge_registers_nothing() {
    story(
        "
        post a=11[10/hour]                     => refused: a has 10 left of 10 (hour@UTC), 11 requested, more than the limit itself
        post a=1                               => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        define b 1/lifetime                    => done
        post a=1[10/hour] b=2                  => refused: b has 1 left of 1 (lifetime), 2 requested, more than the limit itself
        post a=1                               => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        ",
    );
}

#[test]
fn a_defined_budget_is_never_replaced_by_a_default() {
    story(
        "
        define a 50/hour                       => done
        post a=20[10/hour]                     => posted: a 30/50 hour@UTC
        post b=1[10/hour]                      => posted: b 9/10 hour@UTC
        define b 3/hour                        => done
        post b=5[10/hour]                      => refused: b has 2 left of 3 (hour@UTC), 5 requested, more than the limit itself
        left b                                 => 2/3 hour@UTC
        ",
    );
}

#[test]
fn a_new_default_replaces_a_default_and_keeps_the_spend() {
    story(
        "
        post a=4[10/hour]                      => posted: a 6/10 hour@UTC
        post a=4[20/hour]                      => posted: a 12/20 hour@UTC
        post a=1[20/hour,9/day]                => posted: a 11/20 hour@UTC, a 0/9 day@UTC
        post a=1[20/hour,9/day]                => refused: a has 0 left of 9 (day@UTC), 1 requested, try again in 43200000 ms at the earliest
        post a=1[5/lifetime]                   => refused: a has 0 left of 5 (lifetime), 1 requested
        left a                                 => 11/20 hour@UTC, 0/9 day@UTC
        post a=0[12/lifetime]                  => posted: a 3/12 lifetime
        left a                                 => 3/12 lifetime
        ",
    );
}

#[test]
fn a_bucket_that_replaces_a_bucket_is_not_filled() {
    story(
        "
        post a=8[10/bucket:10:1/h]             => posted: a 2/10 bucket:10:1/h
        post a=5[12/bucket:12:1/h]             => refused: a has 4 left of 12 (bucket:12:1/h), 5 requested, try again in 3600000 ms at the earliest
        post a=4[12/bucket:12:1/h]             => posted: a 0/12 bucket:12:1/h
        ",
    );
}

#[test]
fn a_default_applies_together_with_limits_of_the_caller() {
    story(
        "
        post a=3(5/lifetime)[10/hour]          => posted: a 7/10 hour@UTC, a 2/5 lifetime
        post a=3(5/lifetime)[10/hour]          => refused: a has 2 left of 5 (lifetime), 3 requested
        left a                                 => 7/10 hour@UTC
        ",
    );
}

#[test]
fn two_first_charges_in_one_transaction_share_a_budget() {
    story(
        "
        post a=6[10/hour]                      => posted: a 4/10 hour@UTC
        + post a=6[10/hour]                    => refused: a has 4 left of 10 (hour@UTC), 6 requested, try again in 3600000 ms at the earliest
        + post a=4[10/hour]                    => posted: a 0/10 hour@UTC
        ",
    );
}

#[test]
fn invalid_defaults_are_refused() {
    use bursar_core::budget::Budget;
    use bursar_core::request::{Charge, Command, Op, Request};
    let limits = || [bursar_core::budget::Limit::new(5, "hour".parse().unwrap())];
    let submit = |budget: Budget| {
        let charge = Charge::new(crate::story::scope("a"), 1).or_define(budget.into());
        Request::from(Op::Submit(Command { charges: vec![charge], ..Command::default() })).check()
    };
    let define = |budget| Request::from(Op::Define { scope: crate::story::scope("a"), budget }).check();
    let words = |checked: Result<(), bursar_core::refusal::Invalid>| checked.unwrap_err().to_string();
    let expected = "charges[0].default must be marked as a default, and have no parent";
    assert_eq!(words(submit(Budget::new(limits()))), expected);
    assert_eq!(words(submit(Budget::new(limits()).by_default().under(crate::story::scope("b")))), expected);
    assert_eq!(
        words(submit(Budget::new([]).by_default())),
        "charges[0].default.limits must not be empty: a budget without a limit would be unlimited"
    );
    assert_eq!(
        words(define(Budget::new(limits()).by_default())),
        "by_default is only for the default budget of a charge: leave it out"
    );
}
