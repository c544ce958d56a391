//! Listening over a restart of the server.

use std::time::Duration;

use bursar_client::{Error, JobBody, Kind, Payload, Told};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::home::Home;
use crate::script::{Script, Step};

fn body() -> JobBody {
    JobBody::new("q".try_into().unwrap(), "k".try_into().unwrap(), Payload::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_where_it_broke_off() {
    let mut home = Home::sqlite().await;
    let client = home.client();
    let mut events = client.events(["queue:q", "budget:with,comma"]);
    assert!(matches!(events.next().await.unwrap(), Told::Ready { .. }));
    let mut enqueued = Vec::new();
    let mut heard = Vec::new();
    for round in 0..3 {
        enqueued.push(client.jobs().enqueue(&body()).await.unwrap().id.to_string());
        // The last one is enqueued while the stream is broken and nobody has noticed.
        if round == 1 {
            home.stop().await;
            home.start().await;
        }
    }
    while heard.len() < 3 {
        match timeout(Duration::from_secs(30), events.next()).await.unwrap().unwrap() {
            Told::Happened(event) => heard.push(event.data["job"].as_str().unwrap().to_owned()),
            Told::Ready { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard, enqueued, "each once, in order");
    let position = events.position().unwrap();
    // Who comes later with a position hears what happened since.
    let again = client.events(["journal"]).after(position - 1);
    let mut again = std::pin::pin!(again.into_stream());
    assert!(matches!(again.next().await.unwrap().unwrap(), Told::Ready { .. }));
    let Told::Happened(last) = again.next().await.unwrap().unwrap() else { panic!("it happened") };
    assert_eq!(last.position, position);
    home.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_again_and_again_is_given_up() {
    let script = Script::new([Step::Answer(200, &[], String::new())]);
    let error = script.client().events(["journal"]).next().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(script.asked().len() > 5, "it was tried for a while");
    // One that tells something in between is not.
    let happens = "id: 7\nevent: ready\ndata: {\"position\":7}\n\n";
    let script = Script::new([Step::Answer(200, &[], happens.into())]);
    let mut events = script.client().events(["journal"]);
    for _ in 0..100 {
        assert!(matches!(events.next().await.unwrap(), Told::Ready { position: 7 }));
    }
    assert_eq!(script.headers("last-event-id")[1].as_deref(), Some("7"));
    // What cannot be read is told each time, and not passed over.
    let odd = "id: 7\nevent: ready\ndata: {\"position\":7}\n\nid: 8\nevent: job.odd\ndata: {}\n\n";
    let script = Script::new([Step::Answer(200, &[], odd.into())]);
    let mut events = script.client().events(["journal"]);
    assert!(matches!(events.next().await.unwrap_err(), Error::Unreadable { .. }));
    assert!(matches!(events.next().await.unwrap(), Told::Ready { .. }));
    assert!(matches!(events.next().await.unwrap_err(), Error::Unreadable { .. }));
    assert_eq!(events.position(), Some(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_listen_is_told_so_at_once() {
    let mut home = Home::sqlite().await;
    let error = home.with("nobody").events(["journal"]).next().await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::Unauthorized));
    let error = home.client().events(["blob:1"]).next().await.unwrap_err();
    assert_eq!(error.kind(), Some(Kind::Invalid));
    let client = home.client();
    home.stop().await;
    let error = client.within(Duration::from_secs(3)).events(["journal"]).next().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}
