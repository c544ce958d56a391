//! Holds whose expiry posts units.

use crate::story::story;

#[test]
fn an_expiry_posts_its_charge_before_it_is_swept() {
    story(
        "
        define a 10/lifetime           => done
        hold h a=6 ttl=5s on-expiry=4  => h held 5s: a 4/10 lifetime
        after 4s
        left a                         => 4/10 lifetime
        held a                         => 6
        after 1s
        left a                         => 6/10 lifetime
        held a                         => 0
        state h                        => expired
        post a=7                       => refused: a has 6 left of 10 (lifetime), 7 requested
        release h                      => hold h is already expired
        extend h 5s                    => hold h expired at 2026-11-15T12:00:05.000002Z: place a new one
        left a                         => 6/10 lifetime
        sweep                          => swept 1
        sweep                          => swept 0
        post a=6                       => posted: a 0/10 lifetime
        events                         => budget.defined, hold.placed, hold.expired, spend.posted
        ",
    );
}

#[test]
fn a_late_commit_corrects_the_charge_of_the_expiry_once() {
    story(
        "
        define a 100/lifetime          => done
        hold more a=10 ttl=5s on-expiry=4 => more held 5s: a 90/100 lifetime
        hold less a=10 ttl=5s on-expiry=4 => less held 5s: a 80/100 lifetime
        hold over a=10 ttl=5s on-expiry=10 => over held 5s: a 70/100 lifetime
        hold none a=10 ttl=5s on-expiry=0 => none held 5s: a 60/100 lifetime
        after 5s
        left a                         => 82/100 lifetime
        commit more 9                  => committed, committed_after_expiry: a 77/100 lifetime
        commit more 9                  => hold more is already committed
        sweep                          => swept 3
        commit less 1                  => committed, committed_after_expiry: a 80/100 lifetime
        commit less 1                  => hold less is already committed
        commit over 12                 => committed, committed_after_expiry, overrun: a 78/100 lifetime
        left a                         => 78/100 lifetime
        ",
    );
}

#[test]
fn a_hold_that_is_settled_in_time_posts_nothing_at_its_expiry() {
    story(
        "
        define a 100/lifetime          => done
        hold h a=10 ttl=5s on-expiry=4 => h held 5s: a 90/100 lifetime
        hold k a=10 ttl=5s on-expiry=4 => k held 5s: a 80/100 lifetime
        hold l a=10 ttl=5s on-expiry=4 => l held 5s: a 70/100 lifetime
        commit h 1                     => committed: a 79/100 lifetime
        release k                      => released: a 89/100 lifetime
        extend l 5s                    => extended to 10s
        after 6s
        left a                         => 89/100 lifetime
        sweep                          => swept 0
        after 4s
        left a                         => 95/100 lifetime
        ",
    );
}

#[test]
fn an_expiry_charges_every_scope_of_the_hold() {
    story(
        "
        define org 100/lifetime        => done
        define team 100/lifetime parent=org => done
        define lab 100/lifetime parent=org => done
        hold h team=5 lab=7 ttl=5s on-expiry=3 => h held 5s: team 95/100 lifetime, org 88/100 lifetime, lab 93/100 lifetime, org 88/100 lifetime
        after 5s
        left team                      => 97/100 lifetime
        left lab                       => 97/100 lifetime
        left org                       => 94/100 lifetime
        commit h team=5 lab=0          => committed, committed_after_expiry: team 95/100 lifetime, org 95/100 lifetime, lab 100/100 lifetime, org 95/100 lifetime
        ",
    );
}

#[test]
fn the_charge_counts_for_the_instant_of_expiry() {
    story(
        "
        define day 10/day              => done
        after 719m
        hold h day=6 ttl=5m on-expiry=4 => h held 5m: day 4/10 day@UTC
        after 2m
        left day                       => 10/10 day@UTC
        after 10m
        left day                       => 6/10 day@UTC
        post day=1                     => posted: day 5/10 day@UTC
        commit h 2                     => committed, committed_after_expiry: day 7/10 day@UTC
        define roll 10/rolling:1h      => done
        hold k roll=6 ttl=5s on-expiry=4 => k held 5s: roll 4/10 rolling:1h
        hold l roll=2 ttl=10s on-expiry=2 => l held 10s: roll 2/10 rolling:1h
        after 3600s
        left roll                      => 4/10 rolling:1h
        after 5s
        left roll                      => 8/10 rolling:1h
        post roll=1                    => posted: roll 7/10 rolling:1h
        after 6s
        left roll                      => 9/10 rolling:1h
        post roll=9                    => posted: roll 0/10 rolling:1h
        sweep                          => swept 2
        left roll                      => 0/10 rolling:1h
        ",
    );
}

#[test]
fn a_charge_of_an_expiry_draws_from_a_bucket_and_trips_limits() {
    story(
        "
        define b 10/bucket:10:1/s      => done
        hold h b=10 ttl=5s on-expiry=9 => h held 5s: b 0/10 bucket:10:1/s
        after 7s
        left b                         => 8/10 bucket:10:1/s
        define t 100/lifetime at=50 trip=50/lifetime => done
        hold k t=60 ttl=5s on-expiry=60 => k held 5s: t 40/100 lifetime
        after 5s
        events                         => budget.defined, hold.placed, budget.defined, hold.placed
        sweep                          => swept 2
        events                         => hold.expired, hold.expired, t crossed 50% of lifetime with 60, t tripped over lifetime with 60
        post t=1                       => refused: t is frozen
        ",
    );
}

#[test]
fn a_credit_that_names_the_hold_reverses_the_charge_at_its_instant() {
    story(
        "
        define day 10/day              => done
        after 719m
        hold h day=6 ttl=30s on-expiry=4 => h held 30s: day 4/10 day@UTC
        after 50s
        left day                       => 6/10 day@UTC
        after 20s
        credit day 4 h                 => credited: day 10/10 day@UTC
        commit h 6                     => committed, committed_after_expiry: day 8/10 day@UTC
        credit day 2 h                 => credited: day 10/10 day@UTC
        ",
    );
}

#[test]
fn the_charge_is_at_most_what_is_held() {
    story(
        "
        define a 10/lifetime           => done
        hold h a=6 on-expiry=7         => on_expiry.charge must be at most the held amount, which is 6 on a
        hold h a=6 on-expiry=-1        => on_expiry.charge must not be negative
        post a=6 on-expiry=1           => on_expiry is only for charges that are held for a time to live
        left a                         => 10/10 lifetime
        ",
    );
}
