//! Payloads and results of the maximum size.

use bursar::{HandlerError, JobContext, JobState, bounds};

use crate::world::{World, for_every_worker, spec};

for_every_worker! {
    sqlite: [payloads_and_results_of_the_maximum_size_work],
    postgres: [payloads_and_results_of_the_maximum_size_work],
    stopped_clock: []
}

/// More jobs than fit in one answer or one report.
const JOBS: usize = 40;

async fn payloads_and_results_of_the_maximum_size_work(mut world: World) {
    let text = "x".repeat(bounds::PAYLOAD_BYTES_MAX - 2);
    let specs = (0..JOBS).map(|_| spec("x", &text));
    let ids: Vec<_> = world.bursar.jobs().enqueue_all(specs).await.unwrap().into_iter().map(|job| job.id).collect();
    let handler = async |text: String, _: JobContext| Ok::<_, HandlerError>(text.replace('x', "y"));
    let running = world.worker().concurrency(JOBS).on("x", handler).start().unwrap();
    for id in ids {
        let job = world.until(id, JobState::Succeeded).await;
        assert_eq!(job.life.attempts, 1, "a job that did not fit counts no attempt");
        assert_eq!(job.life.result.as_str().len(), bounds::PAYLOAD_BYTES_MAX);
        assert!(job.life.result.as_str().starts_with("\"yyy"));
    }
    assert_eq!(running.drain().await.unwrap().completed, JOBS as u64);
    world.stop().await;
}
