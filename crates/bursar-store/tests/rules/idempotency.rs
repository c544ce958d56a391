//! Idempotency keys, and dry runs.

use crate::story::story;

#[test]
fn a_repeated_request_has_one_effect_and_one_answer() {
    story(
        "
        define a 10/lifetime key=d             => done
        hold h a=6 key=k                       => h held 1m: a 4/10 lifetime
        post a=1                               => posted: a 3/10 lifetime
        hold h a=6 key=k                       => again: h held 1m: a 4/10 lifetime
        commit h 2 key=c                       => committed: a 7/10 lifetime
        commit h 2 key=c                       => again: committed: a 7/10 lifetime
        commit h 2                             => hold h is already committed
        define a 10/lifetime key=d             => again: done
        left a                                 => 7/10 lifetime
        events                                 => budget.defined, hold.placed, spend.posted, hold.committed
        ",
    );
}

#[test]
fn equal_requests_in_one_transaction_have_one_effect() {
    story(
        "
        define a 10/lifetime                   => done
        post a=6 key=k                         => posted: a 4/10 lifetime
        + post a=6 key=k                       => again: posted: a 4/10 lifetime
        + post a=5 key=k                       => idempotency key k was used for a different request: use a new key, or repeat the same request
        left a                                 => 4/10 lifetime
        ",
    );
}

#[test]
fn a_key_used_for_another_request_is_a_conflict() {
    story(
        "
        define a 10/lifetime                   => done
        post a=6 key=k                         => posted: a 4/10 lifetime
        post a=5 key=k                         => idempotency key k was used for a different request: use a new key, or repeat the same request
        hold h a=6 key=k                       => idempotency key k was used for a different request: use a new key, or repeat the same request
        define a 10/lifetime tenant=other      => done
        post a=5 key=k tenant=other            => posted: a 5/10 lifetime
        after 7d
        post a=4 key=k                         => posted: a 0/10 lifetime
        ",
    );
}

#[test]
fn a_refused_request_can_be_retried_with_its_key() {
    story(
        "
        define a 10/lifetime                   => done
        hold h a=6                             => h held 1m: a 4/10 lifetime
        post a=5 key=k                         => refused: a has 4 left of 10 (lifetime), 5 requested, try again in 60000 ms at the earliest
        release h                              => released: a 10/10 lifetime
        post a=5 key=k                         => posted: a 5/10 lifetime
        post a=5 key=k                         => again: posted: a 5/10 lifetime
        ",
    );
}

#[test]
fn a_repeated_act_on_jobs_returns_the_first_answer() {
    story(
        "
        enqueue a max=1                        => a
        lease 1                                => a#1
        fail a#1 boom final                    => dead
        retry a key=r                          => queued
        lease 1                                => a#2
        retry a key=r                          => again: queued
        fail a#2 boom final                    => dead
        retry a key=r                          => again: queued
        cancel a key=r                         => idempotency key r was used for a different request: use a new key, or repeat the same request
        discard a key=d                        => cancelled
        discard a key=d                        => again: cancelled
        discard a                              => a is cancelled: only dead jobs can be discarded
        ",
    );
}

#[test]
fn a_repeated_mint_keeps_the_first_grant() {
    story(
        r#"
        mint g upload ann {"size":5} key=m     => minted for 1m
        mint twin upload ann {"size":5} key=m  => again: minted for 1m
        post redeem:twin:upload:ann            => refused: the token is not valid for upload (no such grant)
        post redeem:g:upload:ann key=r         => upload granted {"size":5}
        post redeem:g:upload:ann key=r         => again: upload granted {"size":5}
        after 1m
        purge                                  => swept 1
        post redeem:g:upload:ann key=r         => again: upload granted nothing
        "#,
    );
}

#[test]
fn a_dry_run_answers_and_changes_nothing() {
    story(
        "
        define a 10/lifetime at=50             => done
        mint g upload ann                      => minted for 1m
        hold x a=6 dry key=k                   => x held 1m: a 4/10 lifetime
        post a=11 dry                          => refused: a has 10 left of 10 (lifetime), 11 requested, more than the limit itself
        post a=6 job:q:k redeem:g:upload:ann dry => posted: a 4/10 lifetime; upload granted null; job 1 created
        post b=6(9/day) dry                    => posted: b 3/9 day@UTC
        define a 1/lifetime dry                => done
        freeze a dry                           => done
        left a                                 => 10/10 lifetime
        hold h a=5 key=k                       => h held 1m: a 5/10 lifetime
        commit h 9 dry                         => committed, overrun: a 1/10 lifetime
        state h                                => held
        credit b 1                             => scope b is unknown: it has no budget, and the request gives no limit for it; define a budget or pass limits
        post redeem:g:upload:ann               => upload granted null
        events                                 => budget.defined, grant.minted, hold.placed, grant.redeemed
        ",
    );
}
