//! Restarts of the server under a running worker. A worker of the library ends with its `Bursar`.

use std::sync::Arc;
use std::time::Duration;

use bursar::{HandlerError, JobContext, JobState, SourceError};
use bursar_client::wire::credential::WorkerBody;
use bursar_client::{Capabilities, Client, Pattern};
use tokio::sync::Notify;

use crate::world::{On, Via, World};

async fn a_worker_survives_a_restart_of_the_server(mut world: World) {
    let id = world.enqueue_held("x", 40).await;
    let gate = Arc::new(Notify::new());
    let handler = {
        let gate = gate.clone();
        move |(): (), context: JobContext| {
            let gate = gate.clone();
            async move {
                gate.notified().await;
                context.usage(11)?;
                Ok::<_, HandlerError>(context.attempt())
            }
        }
    };
    let running = world.worker().on("x", handler).start().unwrap();
    world.until(id, JobState::Leased).await;
    world.stop().await;
    // The handler ends while the server is down.
    gate.notify_one();
    world.start().await;
    let done = world.until(id, JobState::Succeeded).await;
    assert_eq!((done.life.result.as_str(), done.life.attempts), ("1", 1), "a second attempt was made");
    assert_eq!(world.balance().await, (11, 0));
    // The worker leases jobs again.
    gate.notify_one();
    let next = world.enqueue_held("x", 40).await;
    world.until(next, JobState::Succeeded).await;
    assert_eq!(world.balance().await, (22, 0));
    running.drain().await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_survives_a_restart_of_the_server_on_sqlite() {
    a_worker_survives_a_restart_of_the_server(World::new(Via::Http, On::Sqlite).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_survives_a_restart_of_the_server_on_postgres() {
    a_worker_survives_a_restart_of_the_server(World::new(Via::Http, On::Postgres).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_the_library_ends_when_its_bursar_is_closed() {
    let mut world = World::new(Via::InProcess, On::Sqlite).await;
    let worker = world.worker().on("x", async |(): (), _: JobContext| Ok::<_, HandlerError>(()));
    let running = tokio::spawn(worker.run());
    world.stop().await;
    tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_a_token_ends_when_the_token_is_revoked() {
    let mut world = World::new(Via::Http, On::Sqlite).await;
    let capabilities = Capabilities {
        queues: vec![Pattern::new("q").unwrap()],
        kinds: vec![Pattern::new("x*").unwrap()],
        ..Capabilities::default()
    };
    let body = WorkerBody { name: "encoder".into(), capabilities, expires_in_ms: None };
    let made = world.client().make_worker(&body).await.unwrap();
    let own = |client: Client| client.token(made.token.clone().unwrap());
    let id = world.enqueue("x", &()).await;
    let worker =
        own(world.client()).worker().queue("q").on("x", async |(): (), _: JobContext| Ok::<_, HandlerError>(()));
    let running = tokio::spawn(worker.run());
    world.until(id, JobState::Succeeded).await;
    let attempts = world.bursar.jobs().attempts(id).await.unwrap();
    assert_eq!(attempts[0].worker.as_str(), "encoder");
    world.client().workers().revoke(&made.id).await.unwrap();
    // The lease call in flight may still return this job; the next call is denied.
    world.enqueue("x", &()).await;
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(ended, SourceError::Denied(_)), "{ended:?}");
    world.stop().await;
}
