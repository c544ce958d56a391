//! Actions of operators on jobs.

use std::time::Duration;

use bursar::{Act, Failure, JobFilter, JobState};

use crate::home::{ENGINES, ask, balance, budget, enqueue_held, job, lease_one, open};

#[tokio::test]
async fn dead_jobs_are_retried_moved_and_discarded() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let jobs = bursar.jobs();
        let mut dead = Vec::new();
        for _ in 0..3 {
            jobs.enqueue(job("q", "work")).await.unwrap();
            let leased = lease_one(&bursar, "q").await;
            jobs.fail(leased.id, leased.life.fence, Failure::new("bad", "x").for_good()).await.unwrap();
            dead.push(leased.id);
        }
        let group = jobs.dead_groups(None, None, 10).await.unwrap().remove(0);
        let died = |id| async move { jobs.find(id).await.unwrap().unwrap().life.run_at };
        assert_eq!((group.count, group.error.kind.as_str()), (3, "bad"));
        assert_eq!((group.first_at, group.last_at), (died(dead[0]).await, died(dead[2]).await));
        assert_eq!(bursar.tenant("other").unwrap().jobs().dead_groups(None, None, 10).await.unwrap(), []);
        assert_eq!(jobs.retry(dead[0]).await.unwrap().state, JobState::Queued);
        assert_eq!(jobs.discard(dead[1]).await.unwrap().state, JobState::Cancelled);
        assert_eq!(jobs.move_to(dead[2], "other").await.unwrap().state, JobState::Queued);
        assert_eq!(lease_one(&bursar, "other").await.id, dead[2]);
        assert_eq!(lease_one(&bursar, "q").await.id, dead[0]);
        assert!(jobs.discard(dead[0]).await.unwrap_err().is_wrong_state());
        assert_eq!(jobs.dead_groups(None, None, 10).await.unwrap(), []);
        bursar.close().await;
    }
}

#[tokio::test]
async fn an_action_applies_to_matching_jobs_page_by_page() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let jobs = bursar.jobs();
        jobs.enqueue_all((0..1_203).map(|index| job(if index % 3 == 0 { "b" } else { "a" }, "work"))).await.unwrap();
        let filter = JobFilter { queue: Some("a".try_into().unwrap()), ..JobFilter::default() };
        let counted = jobs.count(&filter, 100).await.unwrap();
        assert_eq!((counted.found, counted.more), (100, true));
        assert_eq!(jobs.count(&filter, 10_000).await.unwrap().found, 802);
        let (mut after, mut pages, mut done) = (None, 0, 0);
        loop {
            let acted = jobs.act_on_page(Act::Cancel, &filter, after).await.unwrap();
            pages += 1;
            done += acted.done();
            after = acted.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((pages, done), (2, 802));
        let figures = bursar.queues().figures("a", 1).await.unwrap();
        assert_eq!((figures.count(JobState::Cancelled), figures.count(JobState::Queued)), (802, 0));
        assert_eq!(bursar.queues().figures("b", 1).await.unwrap().count(JobState::Queued), 401);
        bursar.close().await;
    }
}

#[tokio::test]
async fn a_waiting_job_is_edited_and_a_cancelled_one_releases_its_hold() {
    for engine in ENGINES {
        let (bursar, _) = open(engine).await;
        let jobs = bursar.jobs();
        bursar.ledger().define("team", budget(100)).await.unwrap();
        let first = enqueue_held(&bursar, "q", "team", 30).await;
        let second = jobs.enqueue(job("q", "work")).await.unwrap().id;
        jobs.edit(second, Some(10), None).await.unwrap();
        assert_eq!(lease_one(&bursar, "q").await.id, second);
        jobs.edit(first, None, Some(Duration::from_secs(60))).await.unwrap();
        assert!(jobs.lease(ask("q", 1)).await.unwrap().jobs.is_empty());
        assert_eq!(jobs.cancel(first).await.unwrap().state, JobState::Cancelled);
        assert_eq!(balance(&bursar, "team").await, (0, 0));
        assert!(jobs.edit(second, Some(2_000), None).await.is_err());
        bursar.close().await;
    }
}
