//! Commands with jobs: payloads from grants, holds of jobs, jobs that exist already.

use bursar_core::name::Tenant;
use bursar_store::prelude::*;
use futures_util::FutureExt;

use crate::story::{World, story};

#[test]
fn a_job_takes_its_payload_from_the_first_grant() {
    let mut world = World::default();
    world.tell(
        r#"
        mint g1 upload ann {"size":5}                                            => minted for 1m
        mint g2 upload ann {"size":6}                                            => minted for 1m
        post redeem:g1:upload:ann redeem:g2:upload:ann job:q:k:grant job:q       => upload granted {"size":5}; upload granted {"size":6}; job 1 created; job 2 created
        events                                                                   => grant.minted, grant.minted, grant.redeemed, grant.redeemed, job.enqueued, job.enqueued
        "#,
    );
    let payload = |world: &World, place: usize| {
        let job = world.store.job(&Tenant::built_in(), world.jobs[place]).now_or_never().unwrap().unwrap().unwrap();
        job.payload.as_str().to_owned()
    };
    assert_eq!(payload(&world, 0), r#"{"size":5}"#);
    assert_eq!(payload(&world, 1), "null");
}

#[test]
fn a_hold_of_a_job_lasts_as_long_as_the_job() {
    story(
        "
        define a 10/lifetime life=90s          => done
        owned h a=6 job:q:k                    => h held for ever: a 4/10 lifetime; job 1 created
        commit h                               => hold h belongs to job 1 and is settled when that job ends
        release h                              => hold h belongs to job 1 and is settled when that job ends
        extend h 5s                            => hold h belongs to job 1 and is settled when that job ends
        after 30d
        sweep                                  => swept 0
        left a                                 => 4/10 lifetime
        post a=5                               => refused: a has 4 left of 10 (lifetime), 5 requested
        ",
    );
}

#[test]
fn an_existing_owner_job_is_returned_without_a_charge() {
    story(
        "
        define a 10/lifetime                   => done
        mint g upload ann                      => minted for 1m
        owned h a=6 job:q:k                    => h held for ever: a 4/10 lifetime; job 1 created
        owned x a=1 job:q:k redeem:g:upload:ann => h held for ever: ; job 1 found
        owned x a=99 job:q:k                   => h held for ever: ; job 1 found
        left a                                 => 4/10 lifetime
        post redeem:g:upload:ann               => upload granted null
        owned k a=1 job:other:k                => k held for ever: a 3/10 lifetime; job 2 created
        owned l a=1 job:q:new                  => l held for ever: a 2/10 lifetime; job 3 created
        + owned x a=1 job:q:new                => l held for ever: ; job 3 found
        events                                 => budget.defined, grant.minted, hold.placed, job.enqueued, grant.redeemed, hold.placed, job.enqueued, hold.placed, job.enqueued
        ",
    );
}

#[test]
fn an_existing_job_without_a_hold_does_not_stop_the_command() {
    story(
        "
        define a 10/lifetime                   => done
        post a=1 job:q:k job:q:k               => posted: a 9/10 lifetime; job 1 created; job 1 found
        post a=1 job:q:k                       => posted: a 8/10 lifetime; job 1 found
        post job:q:k                           => job 1 found
        post a=9 job:q:new                     => refused: a has 8 left of 10 (lifetime), 9 requested
        post job:q:new                         => job 2 created
        ",
    );
}

#[test]
fn job_keys_of_tenants_are_separate() {
    story(
        "
        post job:q:k                           => job 1 created
        post job:q:k tenant=other              => job 2 created
        post job:q:k tenant=other              => job 2 found
        ",
    );
}

#[test]
fn one_job_settles_a_hold() {
    story(
        "
        define a 10/lifetime                   => done
        owned h a=6 job:q job:q                => jobs must be one job, whose end settles the hold; these are 2 (work, work): submit a command with charges of its own for each
        left a                                 => 10/10 lifetime
        post a=6 job:q job:q                   => posted: a 4/10 lifetime; job 1 created; job 2 created
        ",
    );
}
