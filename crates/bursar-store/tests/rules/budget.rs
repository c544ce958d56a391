//! Budgets: definitions, chains, freezes, trips and thresholds.

use crate::story::{World, story};

#[test]
fn a_changed_limit_takes_effect_at_the_next_request() {
    story(
        "
        define a 10/lifetime           => done
        hold h a=6                     => h held 1m: a 4/10 lifetime
        define a 5/lifetime            => done
        post a=1                       => refused: a has 0 left of 5 (lifetime), 1 requested, try again in 60000 ms at the earliest
        commit h                       => committed: a -1/5 lifetime
        define a 7/lifetime            => done
        post a=1                       => posted: a 0/7 lifetime
        ",
    );
}

#[test]
fn invalid_definitions_are_refused() {
    story(
        "
        define a                       => limits must not be empty: a budget without a limit would be unlimited
        define a -1/day                => limits[0].amount must not be negative
        define a 5/bucket:6:1/s        => limits[0].amount of a bucket must be its capacity
        define a 5/day 6/day           => limits names the window day@UTC twice
        define a 5/day at=0            => thresholds must be at most 16 percentages from 1 to 1000
        define a 5/day at=1001         => thresholds must be at most 16 percentages from 1 to 1000
        define a 5/day at=50,80,50     => thresholds names 50 twice
        define a 5/day ttl=5s..1s..9s  => hold.ttl_ms must have 1 ≤ ttl_ms_min ≤ ttl_ms ≤ ttl_ms_max ≤ 30 days
        define a 5/day ttl=0s..1s..9s  => hold.ttl_ms must have 1 ≤ ttl_ms_min ≤ ttl_ms ≤ ttl_ms_max ≤ 30 days
        define a 5/day life=1s         => hold.life_ms_max must not be below ttl_ms_min
        ",
    );
}

#[test]
fn a_chain_has_no_cycle_and_at_most_eight_budgets() {
    let mut world = World::default();
    world.tell("define s1 9/lifetime => done");
    for depth in 2..=8 {
        world.tell(&format!("define s{depth} 9/lifetime parent=s{} => done", depth - 1));
    }
    world.tell(
        "
        define s9 9/lifetime parent=s8 => the chain of budgets through s9 would have more than 8 budgets
        define s1 9/lifetime parent=s1 => s1 cannot have the parent s1: its chain of parents would be a cycle
        define s1 9/lifetime parent=s8 => s1 cannot have the parent s8: its chain of parents would be a cycle
        define s3 9/lifetime parent=s5 => s3 cannot have the parent s5: its chain of parents would be a cycle
        define top 9/lifetime          => done
        + define s1 9/lifetime parent=top => the chain of budgets through s1 would have more than 8 budgets
        + define s8 9/lifetime         => done
        + define s1 9/lifetime parent=top => done
        + define top 9/lifetime parent=s1 => top cannot have the parent s1: its chain of parents would be a cycle
        post s7=1                      => posted: s7 8/9 lifetime, s6 8/9 lifetime, s5 8/9 lifetime, s4 8/9 lifetime, s3 8/9 lifetime, s2 8/9 lifetime, s1 8/9 lifetime, top 8/9 lifetime
        define s8 9/lifetime parent=s7 => the chain of budgets through s8 would have more than 8 budgets
        ",
    );
}

#[test]
fn a_change_of_parents_cannot_make_a_chain_too_long() {
    let mut world = World::default();
    for name in ["a", "b"] {
        world.tell(&format!("define {name}1 9/lifetime => done"));
        for depth in 2..=4 {
            world.tell(&format!("define {name}{depth} 9/lifetime parent={name}{} => done", depth - 1));
        }
    }
    world.tell(
        "
        define twig 9/lifetime parent=a4 => done
        define b1 9/lifetime parent=a4 => done
        credit b4 1                    => credited, credit_exceeds_spend: b4 10/9 lifetime, b3 10/9 lifetime, b2 10/9 lifetime, b1 10/9 lifetime, a4 10/9 lifetime, a3 10/9 lifetime, a2 10/9 lifetime, a1 10/9 lifetime
        define root 9/lifetime         => done
        define a1 9/lifetime parent=root => the chain of budgets through a1 would have more than 8 budgets
        define b4 9/lifetime parent=b2 => done
        define a1 9/lifetime parent=root => done
        define b4 9/lifetime parent=b3 => the chain of budgets through b4 would have more than 8 budgets
        credit b4 1                    => credited, credit_exceeds_spend: b4 11/9 lifetime, b2 11/9 lifetime, b1 11/9 lifetime, a4 11/9 lifetime, a3 11/9 lifetime, a2 11/9 lifetime, a1 11/9 lifetime, root 10/9 lifetime
        define b1 9/lifetime           => done
        define b4 9/lifetime parent=b3 => done
        define root2 9/lifetime        => done
        define root 9/lifetime parent=root2 => done
        define twig 9/lifetime parent=a4 => done
        ",
    );
}

#[test]
fn a_change_of_limits_does_not_fill_a_drained_bucket() {
    story(
        "
        define a 10/bucket:10:1/s 100/bucket:100:1/m        => done
        post a=10                      => posted: a 0/10 bucket:10:1/s, a 90/100 bucket:100:1/m
        define a 12/bucket:12:1/s 100/bucket:100:1/m        => done
        left a                         => 2/12 bucket:12:1/s, 90/100 bucket:100:1/m
        define a 200/bucket:200:1/m 20/bucket:20:1/s        => done
        left a                         => 190/200 bucket:200:1/m, 10/20 bucket:20:1/s
        post a=10                      => posted: a 180/200 bucket:200:1/m, a 0/20 bucket:20:1/s
        define a 20/bucket:20:2/s      => done
        left a                         => 0/20 bucket:20:2/s
        define a 5/bucket:5:1/s 9/bucket:9:1/m        => done
        left a                         => -15/5 bucket:5:1/s, -11/9 bucket:9:1/m
        define a 20/bucket:20:2/s      => done
        left a                         => 0/20 bucket:20:2/s
        after 1s
        left a                         => 2/20 bucket:20:2/s
        ",
    );
}

#[test]
fn a_frozen_scope_refuses_new_spend_and_settles_existing_holds() {
    story(
        "
        define org 20/lifetime         => done
        define a 10/lifetime parent=org => done
        hold h a=3                     => h held 1m: a 7/10 lifetime, org 17/20 lifetime
        hold k a=3                     => k held 1m: a 4/10 lifetime, org 14/20 lifetime
        freeze org                     => done
        freeze org                     => done
        hold x a=1                     => refused: org is frozen
        post a=0                       => refused: org is frozen
        post a=5                       => refused: a has 4 left of 10 (lifetime), 5 requested, try again in 60000 ms at the earliest; org is frozen
        extend h 5s                    => refused: org is frozen
        commit h                       => committed: a 4/10 lifetime, org 14/20 lifetime
        release k                      => released: a 7/10 lifetime, org 17/20 lifetime
        credit a 1                     => credited: a 8/10 lifetime, org 18/20 lifetime
        unfreeze org                   => done
        unfreeze org                   => done
        post a=1                       => posted: a 7/10 lifetime, org 17/20 lifetime
        events                         => budget.defined, budget.defined, hold.placed, hold.placed, budget.frozen, hold.committed, hold.released, spend.credited, budget.unfrozen, spend.posted
        ",
    );
}

#[test]
fn a_trip_freezes_the_scope_until_the_window_resets() {
    // It is noon; the window of the hour ends at one.
    story(
        "
        define a 100/lifetime trip=5/hour => done
        post a=5                       => posted: a 95/100 lifetime
        hold h a=1                     => h held 1m: a 94/100 lifetime
        commit h                       => committed: a 94/100 lifetime
        post a=1                       => refused: a is frozen
        events                         => budget.defined, spend.posted, hold.placed, hold.committed, a tripped over hour@UTC with 6
        after 1h
        post a=6                       => posted: a 88/100 lifetime
        post a=1                       => refused: a is frozen
        events                         => spend.posted, a thawed, a tripped over hour@UTC with 6
        after 1h
        tidy a                         => done
        events                         => a thawed
        ",
    );
}

#[test]
fn a_trip_lifted_by_an_operator_stays_lifted_in_its_window() {
    story(
        "
        define a 100/lifetime trip=5/hour => done
        post a=6                       => posted: a 94/100 lifetime
        unfreeze a                     => done
        post a=6                       => posted: a 88/100 lifetime
        events                         => budget.defined, spend.posted, a tripped over hour@UTC with 6, budget.unfrozen, spend.posted
        after 1h
        post a=6                       => posted: a 82/100 lifetime
        post a=1                       => refused: a is frozen
        unfreeze a                     => done
        credit a 6                     => credited: a 88/100 lifetime
        post a=6                       => posted: a 82/100 lifetime
        post a=1                       => refused: a is frozen
        events                         => spend.posted, a tripped over hour@UTC with 6, budget.unfrozen, spend.credited, spend.posted, a tripped over hour@UTC with 6
        ",
    );
}

#[test]
fn a_rolling_trip_ends_when_spend_leaves_the_window() {
    story(
        "
        define a 100/lifetime trip=5/rolling:10s   => done
        post a=3                       => posted: a 97/100 lifetime
        after 5s
        post a=3                       => posted: a 94/100 lifetime
        post a=1                       => refused: a is frozen
        after 5s
        post a=3                       => posted: a 91/100 lifetime
        post a=1                       => refused: a is frozen
        events                         => budget.defined, spend.posted, spend.posted, a tripped over rolling:10s with 6, spend.posted, a thawed, a tripped over rolling:10s with 6
        unfreeze a                     => done
        post a=1                       => posted: a 90/100 lifetime
        post a=1                       => posted: a 89/100 lifetime
        ",
    );
}

#[test]
fn raising_a_trip_limit_above_the_spend_ends_the_trip() {
    story(
        "
        define a 100/lifetime trip=5/rolling:10s   => done
        post a=6                       => posted: a 94/100 lifetime
        define a 100/lifetime trip=8/rolling:10s   => done
        post a=3                       => posted: a 91/100 lifetime
        post a=1                       => refused: a is frozen
        events                         => budget.defined, spend.posted, a tripped over rolling:10s with 6, budget.defined, a thawed, spend.posted, a tripped over rolling:10s with 9
        ",
    );
}

#[test]
fn a_manual_freeze_outlasts_a_trip() {
    story(
        "
        define a 100/lifetime trip=5/hour => done
        hold h a=6                     => h held 1m: a 94/100 lifetime
        freeze a                       => done
        commit h                       => committed: a 94/100 lifetime
        events                         => budget.defined, hold.placed, budget.frozen, hold.committed, a tripped over hour@UTC with 6
        after 1h
        post a=1                       => refused: a is frozen
        back 1h
        unfreeze a                     => done
        post a=1                       => posted: a 93/100 lifetime
        events                         => budget.unfrozen, spend.posted
        define b 100/lifetime trip=5/hour => done
        post b=6                       => posted: b 94/100 lifetime
        freeze b                       => done
        after 1h
        post b=1                       => refused: b is frozen
        ",
    );
}

#[test]
fn thresholds_are_recorded_once_when_crossed_and_once_when_cleared() {
    // It is noon; the window of the hour ends at one.
    story(
        "
        define a 10/hour at=50,100     => done
        hold h a=9                     => h held 1m: a 1/10 hour@UTC
        events                         => budget.defined, hold.placed
        commit h 5                     => committed: a 5/10 hour@UTC
        post a=4                       => posted: a 1/10 hour@UTC
        events                         => hold.committed, a crossed 50% of hour@UTC with 5, spend.posted
        post a=1                       => posted: a 0/10 hour@UTC
        credit a 6                     => credited: a 6/10 hour@UTC
        credit a 1                     => credited: a 7/10 hour@UTC
        events                         => spend.posted, a crossed 100% of hour@UTC with 10, spend.credited, a cleared 50% of hour@UTC, a cleared 100% of hour@UTC, spend.credited
        post a=7                       => posted: a 0/10 hour@UTC
        events                         => spend.posted, a crossed 50% of hour@UTC with 10, a crossed 100% of hour@UTC with 10
        after 1h
        post a=5                       => posted: a 5/10 hour@UTC
        events                         => spend.posted, a crossed 50% of hour@UTC with 5
        ",
    );
}

#[test]
fn thresholds_are_recorded_once_within_a_transaction() {
    story(
        "
        define a 10/lifetime at=50     => done
        post a=5                       => posted: a 5/10 lifetime
        + post a=1                     => posted: a 4/10 lifetime
        + credit a 2                   => credited: a 6/10 lifetime
        + post a=1                     => posted: a 5/10 lifetime
        + post a=1                     => posted: a 4/10 lifetime
        events                         => budget.defined, spend.posted, a crossed 50% of lifetime with 5, spend.posted, spend.credited, a cleared 50% of lifetime, spend.posted, a crossed 50% of lifetime with 5, spend.posted
        ",
    );
}

#[test]
fn a_rolling_window_clears_thresholds_as_spend_leaves_it() {
    story(
        "
        define a 10/rolling:10s at=50   => done
        post a=5                       => posted: a 5/10 rolling:10s
        after 10s
        tidy a                         => done
        tidy a                         => done
        events                         => budget.defined, spend.posted, a crossed 50% of rolling:10s with 5, a cleared 50% of rolling:10s
        ",
    );
}

#[test]
fn a_budget_in_use_cannot_be_removed() {
    story(
        "
        define org 100/lifetime        => done
        define a 10/lifetime parent=org => done
        remove-budget org              => the budget org cannot be removed: it has 1 budget below it (remove them, or give them another parent); nothing was changed
        hold h a=4                     => h held 1m: a 6/10 lifetime, org 96/100 lifetime
        remove-budget a                => the budget a cannot be removed: it has 4 held (commit or release the holds); nothing was changed
        remove-budget org              => the budget org cannot be removed: it has 4 held (commit or release the holds), and 1 budget below it (remove them, or give them another parent); nothing was changed
        commit h 3                     => committed: a 7/10 lifetime, org 97/100 lifetime
        remove-budget a dry            => done
        remove-budget a key=k          => done
        remove-budget a key=k          => again: done
        remove-budget a                => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        post a=1                       => scope a is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        remove-budget org              => done
        define a 10/lifetime           => done
        left a                         => 7/10 lifetime
        ",
    );
}

#[test]
fn an_expired_hold_does_not_keep_a_budget() {
    story(
        "
        define a 10/lifetime           => done
        hold h a=4 ttl=5s              => h held 5s: a 6/10 lifetime
        after 5s
        remove-budget a                => done
        commit h 3                     => committed, committed_after_expiry:
        define a 10/lifetime           => done
        left a                         => 7/10 lifetime
        ",
    );
}

#[test]
fn a_removed_budget_takes_its_trip_along_and_leaves_an_ordered_freeze() {
    story(
        "
        define a 100/lifetime trip=5/lifetime => done
        post a=6                       => posted: a 94/100 lifetime
        post a=1                       => refused: a is frozen
        remove-budget a                => done
        events                         => budget.defined, spend.posted, a tripped over lifetime with 6, a thawed, budget.removed
        define a 100/lifetime          => done
        post a=1                       => posted: a 93/100 lifetime
        freeze a                       => done
        remove-budget a                => done
        define a 100/lifetime          => done
        post a=1                       => refused: a is frozen
        ",
    );
}

#[test]
fn the_unit_of_a_budget_stays_once_it_has_spend_or_holds() {
    let kept = "and its spend and its holds are in that unit, so it cannot count";
    let next = "nothing was changed; keep the unit, or define a budget for another scope";
    story(&format!(
        "
        define a 10/lifetime unit=tokens   => done
        define a 10/lifetime unit=usd      => done
        hold h a=4                         => h held 1m: a 6/10 lifetime
        define a 10/lifetime unit=tokens   => the budget a counts usd with 6 decimals, {kept} tokens; {next}
        define a 20/lifetime unit=USD      => done
        release h                          => released: a 20/20 lifetime
        define a 10/lifetime unit=tokens   => done
        post a=1                           => posted: a 9/10 lifetime
        define a 10/lifetime               => the budget a counts tokens, {kept} whole numbers without a unit; {next}
        post a=11                          => refused: a has 9 tokens left of 10 tokens (lifetime), 11 tokens requested, more than the limit itself
        define b 10/lifetime               => done
        post b=1                           => posted: b 9/10 lifetime
        define b 10/lifetime unit=tokens   => done
        left b                             => 9/10 lifetime
        "
    ));
}

#[test]
fn a_credit_above_all_spend_is_posted_with_a_warning() {
    story(
        "
        define a 10/lifetime           => done
        post a=3                       => posted: a 7/10 lifetime
        credit a 3                     => credited: a 10/10 lifetime
        post a=3                       => posted: a 7/10 lifetime
        credit a 4 key=k               => credited, credit_exceeds_spend: a 11/10 lifetime
        credit a 4 key=k               => again: credited, credit_exceeds_spend: a 11/10 lifetime
        ",
    );
}
