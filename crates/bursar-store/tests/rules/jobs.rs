//! The life of a job: leases, fences, retries, and operations on jobs.

use crate::story::story;

#[test]
fn jobs_are_leased_by_priority_and_waiting_time() {
    story(
        "enqueue a b                => a b
         enqueue c prio=1           => c
         lease 2                    => c#1 a#1
         enqueue d prio=2           => d
         after 3m                   =>
         enqueue e prio=2           => e
         lease 9                    => d#1 b#1 e#1
         lease 9                    => nothing",
    );
}

#[test]
fn only_requested_queues_and_kinds_are_leased() {
    story(
        "enqueue a kind=video.cut       => a
         enqueue b kind=video.mix       => b
         enqueue c kind=audio           => c
         enqueue d q=r kind=audio       => d
         lease 9 kinds=audio            => c#1
         lease 1 kinds=video.*          => a#1
         + lease 9 kinds=audio,x        => nothing
         lease 9 q=r,q                  => b#1 d#1
         lease 9 q=other                => nothing",
    );
}

#[test]
fn two_workers_in_one_transaction_get_different_jobs() {
    story(
        "enqueue a b c d kind=x     => a b c d
         enqueue e f kind=y         => e f
         lease 2 kinds=x            => a#1 b#1
         + lease 2 kinds=y          => e#1 f#1
         + lease 9                  => c#1 d#1",
    );
}

#[test]
fn a_scheduled_job_is_leased_when_it_is_due() {
    story(
        "enqueue a delay=10s    => a
         lease 1                => nothing, next in 10s
         job a                  => scheduled
         after 10s              =>
         job a                  => queued
         lease 1                => a#1
         figures q              => 1 leased, 1 came",
    );
}

#[test]
fn a_worker_without_its_lease_changes_nothing() {
    story(
        "enqueue a retry=1s         => a
         lease 1 for=5s             => a#1
         after 5s                   =>
         due                        => a lapsed
         rescue a                   => scheduled in 1s
         complete a#1               => lease 1 of a is no longer current: the job is now scheduled
         after 1s                   =>
         lease 1                    => a#2
         complete a#1               => lease 1 of a is no longer current: the job is now leased
         beat a#1                   => lease 1 of a is no longer current: the job is now leased
         fail a#1                   => lease 1 of a is no longer current: the job is now leased
         snooze a#1 5s              => lease 1 of a is no longer current: the job is now leased
         return a#3                 => lease 3 of a is no longer current: the job is now leased
         complete a#2               => succeeded
         complete b#1               => there is no job job_3zzzzzzzzzzzzzzzzzzzzzzzzz
         job a                      => succeeded, attempt 2, lease expired",
    );
}

#[test]
fn a_repeated_report_of_a_lease_is_replayed() {
    story(
        "enqueue a b c retry=9s     => a b c
         lease 3                    => a#1 b#1 c#1
         complete a#1               => succeeded
         complete a#1               => succeeded
         fail a#1                   => lease 1 of a is no longer current: the job is now succeeded
         fail b#1                   => scheduled in 9s
         events                     => job.enqueued, job.enqueued, job.enqueued, job.leased, job.leased, job.leased, job.succeeded, job.failed
         after 1s                   =>
         fail b#1                   => scheduled in 8s
         return c#1                 => queued
         return c#1                 => queued
         complete c#1               => lease 1 of c is no longer current: the job is now queued
         events                     => job.returned",
    );
}

#[test]
fn an_expired_lease_is_valid_until_it_is_rescued() {
    story(
        "enqueue a b                => a b
         lease 2 for=5s             => a#1 b#1
         after 9s                   =>
         complete a#1               => succeeded
         beat b#1                   => continue, for 5s
         rescue b                   => leased
         due                        =>",
    );
}

#[test]
fn a_heartbeat_extends_the_lease_but_not_the_deadline() {
    story(
        "enqueue a deadline=12s retry=1s    => a
         lease 1 for=5s                     => a#1
         after 4s                           =>
         beat a#1                           => continue, for 5s
         after 4s                           =>
         beat a#1                           => continue, for 4s
         after 4s                           =>
         due                                => a lapsed
         rescue a                           => scheduled in 1s
         job a                              => scheduled, attempt 1, deadline exceeded",
    );
}

#[test]
fn the_next_lease_has_the_last_checkpoint() {
    story(
        "enqueue a retry=1s                 => a
         lease 1 for=5s                     => a#1
         beat a#1 saves=7 percent=40        => continue, for 5s
         beat a#1 percent=60                => continue, for 5s
         job a                              => leased, attempt 1, report 2 of lease 1 60 %, at 7
         fail a#1                           => scheduled in 1s
         after 1s                           =>
         lease 1                            => a#2
         job a                              => leased, attempt 2, boom, report 2 of lease 1 60 %, at 7
         beat a#2 saves=8                   => continue, for 30s
         beat a#2 saves=8                   => continue, for 30s
         job a                              => leased, attempt 2, boom, report 2 of lease 2, at 8
         beat a#2 saves=null                => continue, for 30s
         job a                              => leased, attempt 2, boom, report 3 of lease 2
         complete a#2                       => succeeded
         job a                              => succeeded, attempt 2, boom, report 3 of lease 2",
    );
}

#[test]
fn a_checkpoint_stays_when_a_job_is_put_off_moved_or_retried() {
    story(
        "enqueue a attempts=1               => a
         lease 1                            => a#1
         beat a#1 saves=1                   => continue, for 30s
         snooze a#1 5s                      => scheduled in 5s
         after 5s                           =>
         lease 1                            => a#2
         return a#2                         => queued
         lease 1                            => a#3
         fail a#3                           => dead
         job a                              => dead, attempt 1, boom, report 1 of lease 1, at 1
         move a r                           => queued
         lease 1 q=r                        => a#4
         job a                              => leased, attempt 1, boom, report 1 of lease 1, at 1",
    );
}

#[test]
fn a_lost_lease_stores_no_checkpoint() {
    story(
        "enqueue a retry=1s                 => a
         lease 1 for=5s                     => a#1
         beat a#1 saves=1                   => continue, for 5s
         after 5s                           =>
         rescue a                           => scheduled in 1s
         beat a#1 saves=2 percent=9         => lease 1 of a is no longer current: the job is now scheduled
         after 1s                           =>
         lease 1                            => a#2
         beat a#1 saves=2                   => lease 1 of a is no longer current: the job is now leased
         beat a#3 saves=3                   => lease 3 of a is no longer current: the job is now leased
         job a                              => leased, attempt 2, lease expired, report 1 of lease 1, at 1
         complete a#2                       => succeeded
         beat a#2 saves=4                   => lease 2 of a is no longer current: the job is now succeeded
         job a                              => succeeded, attempt 2, lease expired, report 1 of lease 1, at 1",
    );
}

#[test]
fn a_failed_attempt_is_retried_until_the_last() {
    story(
        "enqueue a attempts=2 retry=7s  => a
         lease 1                        => a#1
         fail a#1 timeout               => scheduled in 7s
         after 7s                       =>
         lease 1                        => a#2
         fail a#2 timeout               => dead
         job a                          => dead, attempt 2, timeout
         lease 1                        => nothing
         figures q                      => 1 dead, 1 came, 1 became dead, 2 failed",
    );
}

#[test]
fn a_worker_can_set_the_retry_delay_or_forbid_a_retry() {
    story(
        "enqueue a b                => a b
         lease 2                    => a#1 b#1
         fail a#1 busy after=2s     => scheduled in 2s
         fail b#1 broken final      => dead
         fail b#1 broken final      => dead",
    );
}

#[test]
fn a_job_has_as_many_attempts_as_its_policy_allows() {
    story(
        "enqueue a retry=1s         => a
         lease 1                    => a#1
         fail a#1 after=0s          => queued
         lease 1                    => a#2
         fail a#2 after=0s          => queued
         lease 1                    => a#3
         fail a#3 after=0s          => queued
         lease 1                    => a#4
         fail a#4 after=0s          => queued
         lease 1                    => a#5
         fail a#5 after=0s          => dead",
    );
}

#[test]
fn a_snoozed_or_returned_job_uses_no_attempt() {
    story(
        "enqueue a attempts=1       => a
         lease 1                    => a#1
         snooze a#1 5s              => scheduled in 5s
         job a                      => scheduled
         after 5s                   =>
         lease 1                    => a#2
         return a#2                 => queued
         lease 1                    => a#3
         fail a#3                   => dead",
    );
}

#[test]
fn a_returned_job_keeps_its_place() {
    story(
        "enqueue a          => a
         enqueue b          => b
         lease 1            => a#1
         return a#1         => queued
         lease 2            => a#2 b#1",
    );
}

#[test]
fn a_leased_job_is_cancelled_when_its_worker_ends_it() {
    story(
        "enqueue a b c d e retry=1s     => a b c d e
         cancel a a                     => cancelled; cancelled
         lease 9                        => b#1 c#1 d#1 e#1
         cancel b c d e                 => leased; leased; leased; leased
         beat b#1                       => cancel, for 30s
         fail b#1                       => cancelled
         return c#1                     => cancelled
         snooze d#1 5s                  => cancelled
         complete e#1                   => succeeded
         cancel e                       => e is succeeded: it has ended
         cancel zzz                     => there is no job job_3zzzzzzzzzzzzzzzzzzzzzzzzz
         figures q                      => 1 succeeded, 4 cancelled, 5 came, 1 became succeeded, 4 became cancelled, 1 failed",
    );
}

#[test]
fn a_rescue_completes_the_cancellation_of_a_leased_job() {
    story(
        "enqueue a              => a
         lease 1 for=1s         => a#1
         cancel a               => leased
         after 1s               =>
         rescue a               => cancelled
         job a                  => cancelled, attempt 1, lease expired",
    );
}

#[test]
fn dead_jobs_can_be_retried_discarded_or_moved() {
    story(
        "enqueue a b c attempts=1       => a b c
         lease 3                        => a#1 b#1 c#1
         fail a#1                       => dead
         fail b#1                       => dead
         retry c                        => c is leased: it is running
         fail c#1                       => dead
         discard a                      => cancelled
         discard a                      => a is cancelled: only dead jobs can be discarded
         retry b                        => queued
         move c r                       => queued
         lease 9                        => b#2
         lease 9 q=r                    => c#2
         complete b#2                   => succeeded
         retry b                        => b is succeeded: only dead, cancelled and waiting jobs can be retried
         move b r                       => b is succeeded: it has ended
         retry a                        => queued
         figures q                      => 1 queued, 1 succeeded, 3 came, 1 became succeeded, 1 became cancelled, 3 became dead, 3 failed
         figures r                      => 1 leased",
    );
}

#[test]
fn dead_jobs_are_grouped_by_queue_kind_and_error_until_they_leave() {
    story(
        "enqueue a b c attempts=1       => a b c
         enqueue d attempts=1 kind=mix  => d
         lease 9                        => a#1 b#1 c#1 d#1
         dead                           =>
         fail a#1 timeout               => dead
         after 5s                       =>
         fail b#1 timeout               => dead
         fail c#1 refused               => dead
         + fail d#1 refused             => dead
         dead                           => 1 mix of q: refused, over 0 s; 2 work of q: timeout, over 5 s; 1 work of q: refused, over 0 s
         retry a                        => queued
         dead                           => 1 mix of q: refused, over 0 s; 1 work of q: timeout, over 0 s; 1 work of q: refused, over 0 s
         discard b                      => cancelled
         move d r                       => queued
         dead                           => 1 work of q: refused, over 0 s
         retry b                        => queued
         lease 9                        => a#2 b#2
         fail a#2 refused               => dead
         + fail b#2 refused             => dead
         dead                           => 3 work of q: refused, over 0 s",
    );
}

#[test]
fn a_job_between_attempts_can_be_retried_at_once() {
    story(
        "enqueue a retry=1h     => a
         lease 1                => a#1
         fail a#1               => scheduled in 1h
         retry a                => queued
         lease 1                => a#2",
    );
}

#[test]
fn a_waiting_job_can_be_moved_and_edited() {
    story(
        "enqueue a b c              => a b c
         edit c prio=5              => queued
         edit b delay=5s            => scheduled in 5s
         move a r                   => queued
         lease 9                    => c#1, next in 5s
         lease 9 q=r                => a#1
         edit a prio=1              => a is leased: only queued and scheduled jobs can be edited
         move a q                   => a is leased: it is running
         after 5s                   =>
         lease 9                    => b#1",
    );
}

#[test]
fn finished_jobs_are_deleted_after_their_retention() {
    story(
        "queue q keep=1h                    => done
         enqueue a unique=u                 => a
         enqueue b                          => b
         enqueue c attempts=1               => c
         lease 3                            => a#1 b#1 c#1
         forget a                           => a is leased: it has not ended
         complete a#1                       => succeeded
         fail c#1                           => dead
         forget a                           => succeeded
         job a                              => succeeded, attempt 1
         enqueue x unique=u                 => a found
         after 1h                           =>
         due                                => b lapsed, a ended
         forget a                           => succeeded
         job a                              => gone
         enqueue x unique=u                 => x
         complete a#1                       => there is no job a
         figures q                          => 1 queued, 1 leased, 1 dead, 4 came, 1 became succeeded, 1 became dead, 1 failed",
    );
}

#[test]
fn invalid_requests_change_nothing() {
    story(
        "enqueue a prio=1001        => jobs[0].priority is 1001; it must be from -1000 to 1000
         enqueue a delay=4000d      => jobs[0].delay_ms is above 316224000000
         enqueue a attempts=0       => jobs[0].max_attempts is 0; it must be from 1 to 1000
         enqueue a deadline=400d    => jobs[0].deadline_ms must be from 1 to 31622400000
         enqueue a                  => a
         lease 1 for=365d           => lease_ms must be from 100 to 86400000
         lease 0                    => capacity must be from 1 to 1000
         lease 1001                 => capacity must be from 1 to 1000
         lease 1                    => a#1
         snooze a#1 4000d           => delay_ms is above 316224000000
         complete a#1 room=-1       => usage[0].amount must not be negative
         complete a#1 room=5        => scope room is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
         complete a#1 =5            => usage of a must name its scope: the job has no hold
         edit a prio=-1001          => priority is -1001; it must be from -1000 to 1000
         queue q concurrency=0      => concurrency must be at least 1: pause the queue instead
         queue q rate=0/10s         => rate amount must be at least 1: pause the queue instead
         queue q lease=365d         => lease_ms must be from 100 to 86400000
         job a                      => leased, attempt 1
         events                     => job.enqueued, job.leased",
    );
}
