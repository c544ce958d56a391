//! Flow control: limits of queues and flow keys, and round-robin between keys.

use crate::story::story;

#[test]
fn a_paused_queue_leases_nothing_and_drains() {
    story(
        "enqueue a b            => a b
         lease 1                => a#1
         queue q paused         => done
         lease 9                => nothing
         beat a#1               => drain, for 30s
         complete a#1           => succeeded
         queue q                => done
         lease 9                => b#1",
    );
}

#[test]
fn a_queue_has_a_concurrency_limit() {
    story(
        "queue q concurrency=2          => done
         enqueue a b c d e retry=1s     => a b c d e
         lease 9                        => a#1 b#1
         held bursar:slots:q            => 2
         lease 9                        => nothing
         complete a#1                   => succeeded
         + lease 9                      => c#1
         fail b#1                       => scheduled in 1s
         snooze c#1 1s                  => scheduled in 1s
         held bursar:slots:q            => 0
         lease 1                        => d#1, next in 1s
         + lease 9                      => e#1, next in 1s
         after 30s                      =>
         rescue d                       => scheduled in 1s
         cancel e                       => leased
         return e#1                     => cancelled
         held bursar:slots:q            => 0",
    );
}

#[test]
fn a_queue_has_a_rate_limit() {
    story(
        "queue q rate=2/10s             => done
         enqueue a b c d                => a b c d
         lease 9                        => a#1 b#1, next in 5s
         lease 9                        => nothing, next in 5s
         after 5s                       =>
         lease 9                        => c#1, next in 5s
         after 1h                       =>
         enqueue e f                    => e f
         lease 9                        => d#1 e#1, next in 5s",
    );
}

#[test]
fn a_key_at_its_limit_bars_its_line() {
    story(
        "queue q key_concurrency=1      => done
         enqueue a1 a2 a3 flow=a         => a1 a2 a3
         enqueue b1 flow=b               => b1
         enqueue n                      => n
         job a1                         => queued, first
         job a2                         => queued, behind
         lease 9                        => a1#1 b1#1 n#1
         job a2                         => queued, barred
         line q a                       => 2 work; 1 barred; 1 leased
         lease 9                        => nothing
         complete a1#1                  => succeeded
         job a2                         => queued, first
         line q a                       => 2 work; 0 barred; 0 leased
         lease 9                        => a2#1
         complete a2#1                  => succeeded
         + lease 9                      => nothing
         lease 9                        => a3#1
         complete a3#1                  => succeeded
         line q a                       => ; 0 barred; 0 leased",
    );
}

#[test]
fn barred_jobs_are_retried_when_the_limit_is_raised() {
    story(
        "queue q key_concurrency=1      => done
         enqueue a1 a2 a3 flow=a         => a1 a2 a3
         lease 9                        => a1#1
         unbar a2                       => queued
         job a2                         => queued, first
         lease 9                        => nothing
         job a2                         => queued, barred
         queue q key_concurrency=2      => done
         lease 9                        => nothing
         unbar a1 a2 a3                 => leased; queued; queued
         job a2                         => queued, first
         job a3                         => queued, behind
         line q a                       => 2 work; 0 barred; 1 leased
         lease 9                        => a2#1
         queue q                        => done
         unbar a3                       => queued
         lease 9                        => a3#1
         line q a                       => ; 0 barred; 2 leased",
    );
}

#[test]
fn a_lease_finds_a_job_behind_keys_at_their_limit() {
    story(
        "queue q key_concurrency=1      => done
         enqueue a1 flow=a              => a1
         enqueue b1 flow=b              => b1
         lease 2                        => a1#1 b1#1
         enqueue a2 flow=a              => a2
         enqueue b2 flow=b              => b2
         enqueue n                      => n
         lease 1                        => n#1
         lease 1                        => nothing",
    );
}

#[test]
fn a_key_barred_and_freed_in_one_transaction_continues() {
    story(
        "queue q key_concurrency=1      => done
         enqueue a1 a2 flow=a            => a1 a2
         lease 1                        => a1#1
         lease 9                        => nothing
         + complete a1#1                => succeeded
         job a2                         => queued, first
         lease 9                        => a2#1",
    );
}

#[test]
fn a_barred_job_that_left_its_line_does_not_return() {
    story(
        "queue q key_concurrency=1      => done
         enqueue a1 a2 a3 flow=a        => a1 a2 a3
         lease 1                        => a1#1
         lease 9                        => nothing
         job a2                         => queued, barred
         edit a2 delay=5s               => scheduled in 5s
         + complete a1#1                => succeeded
         job a2                         => scheduled
         job a3                         => queued, first
         line q a                       => 1 work; 0 barred; 0 leased",
    );
}

#[test]
fn each_kind_of_a_key_has_its_own_line() {
    story(
        "queue q key_concurrency=2      => done
         enqueue x1 x2 flow=a kind=x     => x1 x2
         enqueue y1 y2 flow=a kind=y     => y1 y2
         lease 9 kinds=y                => y1#1 y2#1
         lease 9                        => nothing
         job x1                         => queued, barred
         line q a                       => 2 x; 1 barred; 2 leased
         fail y1#1 boom final           => dead
         lease 9                        => x1#1
         complete y2#1                  => succeeded
         lease 9                        => x2#1",
    );
}

#[test]
fn a_key_has_a_rate_limit() {
    story(
        "queue q key_rate=1/10s         => done
         enqueue a1 a2 flow=a            => a1 a2
         enqueue b1 flow=b               => b1
         lease 9                        => a1#1 b1#1, next in 10s
         job a2                         => queued, delayed for 10s
         lease 9                        => nothing, next in 10s
         figures q                      => 1 queued, 2 leased, 3 came
         after 10s                      =>
         lease 9                        => a2#1",
    );
}

#[test]
fn keys_are_leased_round_robin() {
    story(
        "enqueue a1 a2 a3 a4 flow=a      => a1 a2 a3 a4
         enqueue b1 b2 b3 flow=b         => b1 b2 b3
         enqueue c1 c2 flow=c            => c1 c2
         lease 5                        => a1#1 b1#1 c1#1 a2#1 b2#1
         after 1s                       =>
         lease 2                        => c2#1 a3#1
         lease 9                        => b3#1 a4#1",
    );
}

#[test]
fn a_job_that_leaves_a_line_promotes_the_next() {
    story(
        "queue q key_concurrency=1      => done
         enqueue a1 a2 a3 a4 a5 flow=a   => a1 a2 a3 a4 a5
         cancel a1 a2                   => cancelled; cancelled
         job a3                         => queued, first
         cancel a5                      => cancelled
         + cancel a3                    => cancelled
         + lease 9                      => a4#1
         lease 9                        => nothing
         line q a                       => ; 0 barred; 1 leased
         enqueue a6 a7 a8 flow=a         => a6 a7 a8
         lease 9                        => nothing
         job a6                         => queued, barred
         cancel a6                      => cancelled
         line q a                       => 2 work; 0 barred; 1 leased
         lease 9                        => nothing
         job a7                         => queued, barred
         fail a4#1 boom after=0s        => queued
         line q a                       => 3 work; 0 barred; 0 leased
         lease 9                        => a7#1
         complete a7#1                  => succeeded
         lease 9                        => a8#1
         complete a8#1                  => succeeded
         lease 9                        => a4#2",
    );
}

#[test]
fn a_lease_sees_a_queue_change_of_the_same_transaction() {
    story(
        "enqueue a1 a2 a3 a4            => a1 a2 a3 a4
         queue q concurrency=1          => done
         + lease 9                      => a1#1
         queue q                        => done
         + lease 1                      => a2#1
         queue q paused                 => done
         + lease 9                      => nothing
         queue q                        => done
         + lease 9                      => a3#1 a4#1",
    );
}

#[test]
fn an_edited_or_moved_job_is_placed_again() {
    story(
        "enqueue a1 a2 a3 flow=a         => a1 a2 a3
         edit a1 delay=5s               => scheduled in 5s
         job a2                         => queued, first
         edit a2 prio=-1                => queued
         job a3                         => queued, first
         edit a3 prio=1                 => queued
         job a3                         => queued, first
         enqueue r1 flow=a q=r           => r1
         move a3 r                      => queued
         job a3                         => queued, behind
         job a2                         => queued, first
         lease 9 q=r                    => r1#1 a3#1
         after 5s                       =>
         lease 9                        => a2#1 a1#1",
    );
}

#[test]
fn a_head_can_be_leased_while_another_job_arrives() {
    story(
        "enqueue a1 flow=a       => a1
         enqueue a2 flow=a       => a2
         + lease 9              => a1#1 a2#1
         line q a               => ; 0 barred; 0 leased",
    );
}

#[test]
fn a_moved_job_is_not_leased_from_its_old_queue() {
    story(
        "queue q concurrency=5      => done
         queue r paused             => done
         enqueue a b                => a b
         move a r                   => queued
         + lease 9                  => b#1
         lease 9 q=r                => nothing",
    );
}

#[test]
fn a_moved_job_is_not_promoted_in_its_old_line() {
    story(
        "enqueue a1 a2 flow=a           => a1 a2
         enqueue r1 q=r flow=a          => r1
         move a2 r                      => queued
         + move a1 r                    => queued
         job r1                         => queued, first
         job a1                         => queued, behind
         job a2                         => queued, behind",
    );
}

#[test]
fn a_dead_job_with_a_key_can_be_moved() {
    story(
        "queue r key_concurrency=1          => done
         enqueue a1 flow=a attempts=1        => a1
         lease 1                            => a1#1
         fail a1#1                          => dead
         move a1 r                          => queued
         job a1                             => queued, first, boom
         lease 1 q=r                        => a1#2
         line r a                           => ; 0 barred; 1 leased",
    );
}
