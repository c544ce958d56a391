//! Erasing payloads: what is left in the journal and the file, also after a crash, an archive and a rebuild.

use std::time::Duration;

use bursar::{
    Act, ArchiveOptions, Bursar, Error, Fingerprint, HeartbeatItem, Job, JobFilter, JobId, JobSpec, JobState,
    LeaseRequest, MemoryPlace, Payload, PostgresOptions, Progress, Span,
};

use crate::archive::Killed;
use crate::home::{Home, Place, on_both_engines};

on_both_engines! {
    an_archived_job_is_rebuilt_as_erased,
    a_call_that_is_repeated_erases_what_a_crash_left,
    a_repeated_page_erases_the_jobs_of_the_first_answer,
    the_markers_are_refused_as_payloads,
}

const DAY: Duration = Duration::from_secs(86_400);
const SECRET: &str = "the patient is called Anna";

fn secret() -> Payload {
    Payload::of(&SECRET).unwrap()
}

async fn with_archive(place: Place) -> Home {
    place.open_with(|options| options.archive(ArchiveOptions::at(MemoryPlace::default()).after(DAY))).await
}

/// Enqueues a job with the secret in its payload.
async fn enqueue(home: &Home, queue: &str) -> JobId {
    let spec = JobSpec::new(queue.parse().unwrap(), "k".parse().unwrap(), secret());
    home.bursar.jobs().enqueue(spec).await.unwrap().id
}

async fn lease(home: &Home, queue: &str) -> Job {
    let (queues, worker) = (vec![queue.parse().unwrap()], "w".parse().unwrap());
    let ask = LeaseRequest { queues, kinds: Vec::new(), capacity: 1, lease: None, worker };
    home.bursar.jobs().lease(ask).await.unwrap().jobs.remove(0)
}

/// Enqueues a job that succeeds. The checkpoint and the result have the secret too.
async fn succeed(home: &Home, queue: &str) -> Job {
    let jobs = home.bursar.jobs();
    enqueue(home, queue).await;
    let job = lease(home, queue).await;
    jobs.progress(HeartbeatItem::new(job.id, job.life.fence), Progress::at_checkpoint(secret())).await.unwrap();
    jobs.complete(job.id, job.life.fence, secret(), None).await.unwrap();
    jobs.find(job.id).await.unwrap().unwrap()
}

/// Counts the events of the journal that have the secret.
async fn secrets(home: &Home) -> usize {
    let (mut found, mut at) = (0, 0);
    loop {
        let (events, next) = home.bursar.journal().read(at, 1_000).await.unwrap();
        found += events.iter().filter(|event| serde_json::to_string(&event.event).unwrap().contains(SECRET)).count();
        if next == at {
            return found;
        }
        at = next;
    }
}

async fn an_archived_job_is_rebuilt_as_erased(place: Place) {
    let home = with_archive(place).await;
    let (bursar, clock) = (&home.bursar, &home.clock);
    let job = succeed(&home, "q").await;
    clock.advance(Span::from_days(2));
    enqueue(&home, "q").await;
    assert_eq!(bursar.journal().archive().await.unwrap().segments.len(), 1);
    let found = bursar.jobs().find(job.id).await.unwrap().unwrap();
    assert_eq!((&found.payload, &found.life.result), (&secret(), &secret()), "the archive changes no job");
    bursar.jobs().erase(job.id).await.unwrap();
    let erased = bursar.jobs().find(job.id).await.unwrap();
    let row = erased.as_ref().unwrap();
    assert!(row.payload.is_erased() && row.life.result.is_erased() && row.life.checkpoint.is_none());
    bursar.rebuild().await.unwrap();
    assert_eq!(bursar.jobs().find(job.id).await.unwrap(), erased);
    let left = secrets(&home).await;
    assert_eq!(left, 2, "the payload of the other job, and the archived checkpoint");
}

async fn a_call_that_is_repeated_erases_what_a_crash_left(place: Place) {
    let home = with_archive(place).await;
    let jobs = home.bursar.jobs();
    for steps in 0.. {
        let job = succeed(&home, "q").await;
        let ended = Killed(Box::pin(jobs.erase(job.id)), steps).await.is_some();
        if steps % 2 == 1 {
            home.clock.advance(Span::from_days(2));
            home.budgets(&["anything"]).await;
            home.bursar.journal().archive().await.unwrap();
        }
        jobs.erase(job.id).await.unwrap();
        let row = jobs.find(job.id).await.unwrap().unwrap();
        assert!(row.payload.is_erased() && row.life.result.is_erased());
        let events = jobs.history(job.id, 100).await.unwrap();
        let kept = events.iter().filter(|event| serde_json::to_string(&event.event).unwrap().contains(SECRET));
        let kept: Vec<_> = kept.map(|event| event.event.kind()).collect();
        assert!(kept.is_empty() || (steps % 2 == 1 && kept == ["job.checkpointed"]), "after {steps} steps: {kept:?}");
        if ended {
            break;
        }
        assert!(steps < 500, "the steps end");
    }
}

async fn a_repeated_page_erases_the_jobs_of_the_first_answer(place: Place) {
    let home = place.open().await;
    let jobs = home.bursar.jobs();
    for steps in 0.. {
        let (key, queue) = (format!("erase-{steps}"), format!("q-{steps}"));
        let filter =
            JobFilter { state: Some(JobState::Succeeded), queue: Some(queue.parse().unwrap()), ..JobFilter::default() };
        let first = || (key.parse().unwrap(), 0, Fingerprint::of(&key));
        let done = succeed(&home, &queue).await;
        let call = jobs.act_on_page_once(Act::Erase, &filter, None, first());
        let ended = Killed(Box::pin(call), steps).await.is_some();
        // Other jobs may match when the call is repeated.
        let other = succeed(&home, &queue).await;
        let again = jobs.act_on_page_once(Act::Erase, &filter, None, first()).await.unwrap();
        let acted = |id: JobId| again.answers.iter().any(|(job, answer)| *job == id && answer.is_ok());
        assert!(acted(done.id) && (again.replayed || acted(other.id)), "after {steps} steps");
        assert!(jobs.find(done.id).await.unwrap().unwrap().payload.is_erased());
        jobs.erase(other.id).await.unwrap();
        assert_eq!(secrets(&home).await, 0, "after {steps} steps");
        if ended {
            break;
        }
        assert!(steps < 500, "the steps end");
    }
}

async fn the_markers_are_refused_as_payloads(place: Place) {
    let home = place.open().await;
    let jobs = home.bursar.jobs();
    let field = |error: Error| error.to_string();
    for marker in [Payload::erased(), Payload::elsewhere()] {
        let spec = JobSpec::new("q".parse().unwrap(), "k".parse().unwrap(), marker.clone());
        let refused = field(jobs.enqueue(spec.clone()).await.unwrap_err());
        assert!(refused.contains("payload is {"), "{refused}");
        let spec = JobSpec { payload: secret(), metadata: marker.clone(), ..spec };
        let refused = field(jobs.enqueue(spec).await.unwrap_err());
        assert!(refused.contains("metadata is {"), "{refused}");
        let refused = home.bursar.grants().mint("upload", "Anna", marker.clone(), DAY).await.unwrap_err();
        assert!(field(refused).contains("payload is {"));
        let job = enqueue(&home, "q").await;
        let fence = lease(&home, "q").await.life.fence;
        let refused = field(
            jobs.progress(HeartbeatItem::new(job, fence), Progress::at_checkpoint(marker.clone())).await.unwrap_err(),
        );
        assert!(refused.contains("checkpoint is {"), "{refused}");
        let refused = field(jobs.complete(job, fence, marker, None).await.unwrap_err());
        assert!(refused.contains("result is {"), "{refused}");
        jobs.complete(job, fence, secret(), None).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_does_not_own_the_tables_changes_nothing() {
    let home = crate::home::postgres().open().await;
    let job = succeed(&home, "q").await;
    let app = format!("{}_app", home.url.rsplit('/').next().unwrap());
    home.sql(format!("CREATE ROLE {app} LOGIN")).await;
    // The owner gives the role its privileges.
    let role = PostgresOptions { role: Some(app.clone()), ..PostgresOptions::default() };
    Bursar::options(&home.url).postgres(role).upkeep(None).open().await.unwrap().close().await;
    let url = home.url.replace("postgres@", &format!("{app}@"));
    let server = Bursar::options(&url).clock(home.clock.clone()).migrate(false).upkeep(None).open().await.unwrap();
    assert_eq!(server.jobs().find(job.id).await.unwrap().as_ref(), Some(&job));
    let refused = server.jobs().erase(job.id).await.unwrap_err().to_string();
    assert!(refused.contains("does not own the tables"), "{refused}");
    assert_eq!(server.jobs().find(job.id).await.unwrap(), Some(job));
    server.close().await;
}

/// Counts the places of a file that have the secret.
fn in_file(path: &std::path::Path) -> usize {
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes.windows(SECRET.len()).filter(|window| *window == SECRET.as_bytes()).count()
}

#[tokio::test]
async fn no_erased_byte_is_in_the_file_of_a_sqlite_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bursar.db");
    let home = crate::home::sqlite().in_folder(folder.path()).open().await;
    let mut done = Vec::new();
    for _ in 0..100 {
        done.push(succeed(&home, "q").await.id);
    }
    home.bursar.close().await;
    assert!(in_file(&file) >= 600, "each job has three secrets, in its row and in the journal");
    let home = crate::home::sqlite().in_folder(folder.path()).open().await;
    for answer in home.bursar.jobs().act(Act::Erase, &done).await.unwrap() {
        answer.unwrap();
    }
    home.bursar.close().await;
    assert_eq!((in_file(&file), in_file(&folder.path().join("bursar.db-wal"))), (0, 0));
}
