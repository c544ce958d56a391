//! Event streams: reconnecting, giving up and errors.

use std::time::Duration;

use bursar_client::{Error, JobBody, Kind, Payload, Told};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::script::{Script, Step};
use crate::test_server::TestServer;

fn body() -> JobBody {
    JobBody::new("q".try_into().unwrap(), "k".try_into().unwrap(), Payload::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_continues_after_a_restart_of_the_server() {
    let mut server = TestServer::sqlite().await;
    let client = server.client();
    let mut events = client.events(["queue:q", "budget:with,comma"]);
    assert!(matches!(events.next().await.unwrap(), Told::Ready { .. }));
    let mut enqueued = Vec::new();
    let mut received = Vec::new();
    for round in 0..3 {
        enqueued.push(client.jobs().enqueue(&body()).await.unwrap().id.to_string());
        // The restart breaks the connection; the last job is enqueued before the stream reconnects.
        if round == 1 {
            server.stop().await;
            server.start().await;
        }
    }
    while received.len() < 3 {
        match timeout(Duration::from_secs(30), events.next()).await.unwrap().unwrap() {
            Told::Happened(event) => received.push(event.data["job"].as_str().unwrap().to_owned()),
            Told::Ready { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, enqueued, "an event is missing, repeated or out of order");
    let position = events.position().unwrap();
    // A new stream with a position receives all events after it.
    let again = client.events(["journal"]).after(position - 1);
    let mut again = std::pin::pin!(again.into_stream());
    assert!(matches!(again.next().await.unwrap().unwrap(), Told::Ready { .. }));
    let Told::Happened(last) = again.next().await.unwrap().unwrap() else { panic!("not an event of the journal") };
    assert_eq!(last.position, position);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_connection_is_lost_repeatedly_fails() {
    let script = Script::new([Step::Answer(200, &[], String::new())]);
    let error = script.client().events(["journal"]).next().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(script.requests().len() > 5, "too few attempts");
    // A stream that receives something between losses goes on.
    let ready = "id: 7\nevent: ready\ndata: {\"position\":7}\n\n";
    let script = Script::new([Step::Answer(200, &[], ready.into())]);
    let mut events = script.client().events(["journal"]);
    for _ in 0..100 {
        assert!(matches!(events.next().await.unwrap(), Told::Ready { position: 7 }));
    }
    assert_eq!(script.headers("last-event-id")[1].as_deref(), Some("7"));
    // An event that cannot be parsed is reported each time and not skipped.
    let odd = "id: 7\nevent: ready\ndata: {\"position\":7}\n\nid: 8\nevent: job.odd\ndata: {}\n\n";
    let script = Script::new([Step::Answer(200, &[], odd.into())]);
    let mut events = script.client().events(["journal"]);
    assert!(matches!(events.next().await.unwrap_err(), Error::Unreadable { .. }));
    assert!(matches!(events.next().await.unwrap(), Told::Ready { .. }));
    assert!(matches!(events.next().await.unwrap_err(), Error::Unreadable { .. }));
    assert_eq!(events.position(), Some(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_subscription_fails_at_once() {
    let mut server = TestServer::sqlite().await;
    let error = server.with("nobody").events(["journal"]).next().await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::Unauthorized));
    let error = server.client().events(["blob:1"]).next().await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::Invalid));
    let client = server.client();
    server.stop().await;
    let error = client.within(Duration::from_secs(3)).events(["journal"]).next().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}
