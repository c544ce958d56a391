//! Settlement of the holds of jobs, and the cost of attempts.

use crate::story::story;

#[test]
fn success_commits_the_reported_usage() {
    story(
        "define room 100/lifetime           => done
         enqueue a hold=room:30             => a
         enqueue b hold=room:30             => b
         enqueue c hold=room:30             => c
         left room                          => 10/100 lifetime
         lease 3                            => a#1 b#1 c#1
         complete a#1                       => succeeded, cost 30
         complete b#1 none                  => succeeded
         complete c#1 =12                   => succeeded, cost 12
         complete c#1 =12                   => succeeded, cost 12
         left room                          => 58/100 lifetime
         job b                              => succeeded, attempt 1, hold committed
         held room                          => 0",
    );
}

#[test]
fn usage_names_its_scope_if_there_are_several() {
    story(
        "define a 100/lifetime              => done
         define b 100/lifetime              => done
         define other 5/lifetime            => done
         enqueue j hold=a:10,b:10           => j
         lease 1                            => j#1
         complete j#1 =3                    => usage of j must name its scope: its hold has 2 charges
         complete j#1 a=3 other=7 a=1       => succeeded, cost 11
         left a                             => 96/100 lifetime
         left b                             => 100/100 lifetime
         left other                         => -2/5 lifetime
         events                             => budget.defined, budget.defined, budget.defined, hold.placed, job.enqueued, job.leased, hold.committed, job.billed, job.succeeded",
    );
}

#[test]
fn spend_beyond_the_hold_is_charged() {
    story(
        "define room 100/lifetime overrun=refuse    => done
         enqueue a hold=room:30                     => a
         lease 1                                    => a#1
         complete a#1 =130                          => succeeded, cost 130, overrun 100
         complete a#1 =130                          => succeeded, cost 130, overrun 100
         left room                                  => -30/100 lifetime",
    );
}

#[test]
fn a_dead_or_cancelled_job_releases_its_hold() {
    story(
        "define room 100/lifetime               => done
         enqueue a hold=room:30 attempts=1      => a
         enqueue b hold=room:30                 => b
         enqueue c hold=room:30 attempts=1      => c
         cancel b                               => cancelled
         left room                              => 40/100 lifetime
         lease 2                                => a#1 c#1
         fail a#1                               => dead
         left room                              => 70/100 lifetime
         fail c#1 =12                           => dead, cost 12
         left room                              => 88/100 lifetime
         job c                                  => dead, attempt 1, hold committed, boom, cost 12",
    );
}

#[test]
fn a_failed_attempt_keeps_or_renews_its_hold() {
    story(
        "define room 100/lifetime               => done
         enqueue a hold=room:30 retry=1s        => a
         lease 1                                => a#1
         fail a#1                               => scheduled in 1s
         held room                              => 30
         after 1s                               =>
         lease 1                                => a#2
         fail a#2 =25                           => scheduled in 1s, cost 25
         left room                              => 45/100 lifetime
         fail a#2 =25                           => scheduled in 1s, cost 25
         after 1s                               =>
         lease 1                                => a#3
         fail a#2 =25                           => lease 2 of a is no longer current: the job is now leased
         complete a#3 =10                       => succeeded, cost 35
         left room                              => 65/100 lifetime",
    );
}

#[test]
fn a_job_without_budget_for_a_retry_waits_for_it() {
    story(
        "define room 100/lifetime               => done
         enqueue a hold=room:60 retry=1s        => a
         lease 1                                => a#1
         fail a#1 =50                           => awaiting_budget in 1m, cost 50
         job a                                  => awaiting_budget, attempt 1, awaits room, hold committed, boom, cost 50
         lease 1                                => nothing
         resume a                               => awaiting_budget in 1m, cost 50
         after 1m                               =>
         due                                    => a awaiting
         define room 110/lifetime               => done
         resume a                               => queued, cost 50
         resume a                               => queued, cost 50
         left room                              => 0/110 lifetime
         lease 1                                => a#2
         complete a#2                           => succeeded, cost 110
         left room                              => 0/110 lifetime",
    );
}

#[test]
fn a_waiting_job_awaits_the_scope_that_refuses_now() {
    story(
        "define org 100/lifetime                            => done
         define room 60/lifetime parent=org                 => done
         enqueue a hold=room:60                             => a
         lease 1                                            => a#1
         fail a#1 =10                                       => awaiting_budget in 1m, cost 10
         post org=45                                        => posted: org 45/100 lifetime
         define room 100/lifetime parent=org                => done
         resume a                                           => awaiting_budget in 1m, cost 10
         job a                                              => awaiting_budget, attempt 1, awaits org, hold committed, boom, cost 10
         cancel a                                           => cancelled, cost 10
         held room                                          => 0",
    );
}

#[test]
fn a_job_that_awaits_budget_can_be_moved_and_retried() {
    story(
        "define room 100/lifetime               => done
         enqueue a hold=room:60                 => a
         lease 1                                => a#1
         fail a#1 =50                           => awaiting_budget in 1m, cost 50
         move a r                               => awaiting_budget in 1m, cost 50
         define room 200/lifetime               => done
         retry a                                => queued, cost 50
         lease 1 q=r                            => a#2",
    );
}

#[test]
fn a_retried_dead_job_gets_a_new_hold() {
    story(
        "define room 100/lifetime                   => done
         enqueue a hold=room:60 attempts=1          => a
         lease 1                                    => a#1
         fail a#1 =30                               => dead, cost 30
         left room                                  => 70/100 lifetime
         retry a                                    => queued, cost 30
         left room                                  => 10/100 lifetime
         cancel a                                   => cancelled, cost 30
         post room=50                               => posted: room 20/100 lifetime
         retry a                                    => awaiting_budget in 1m, cost 30
         define room 150/lifetime                   => done
         resume a                                   => queued, cost 30
         lease 1                                    => a#2
         complete a#2                               => succeeded, cost 90",
    );
}

#[test]
fn spend_of_a_lost_lease_is_charged_once_and_flagged() {
    story(
        "define room 100/lifetime               => done
         enqueue a hold=room:30 retry=1s        => a
         lease 1 for=1s                         => a#1
         after 1s                               =>
         rescue a                               => scheduled in 1s
         complete a#1                           => lease 1 of a is no longer current: the job is now scheduled
         complete a#1 =20                       => lease 1 of a is no longer current: the job is now scheduled; the reported usage is charged
         left room                              => 50/100 lifetime
         after 1s                               =>
         lease 1                                => a#2
         complete a#1 =20                       => lease 1 of a is no longer current: the job is now leased; the reported usage is charged
         fail a#1 =25                           => lease 1 of a is no longer current: the job is now leased; the reported usage is charged
         left room                              => 50/100 lifetime
         job a                                  => leased, attempt 2, hold held, lease expired, cost 20
         complete a#2 =10                       => succeeded, cost 30
         left room                              => 70/100 lifetime
         complete a#1 =20                       => lease 1 of a is no longer current: the job is now succeeded; the reported usage is charged",
    );
}

#[test]
fn a_cancellation_releases_the_hold_minus_the_spend() {
    story(
        "define room 100/lifetime       => done
         enqueue a hold=room:30         => a
         lease 1                        => a#1
         cancel a                       => leased
         fail a#1 stopped =4            => cancelled, cost 4
         left room                      => 96/100 lifetime",
    );
}
