//! Handlers run in the trace in which their job was enqueued. The test needs a process of its own, because `tracing`
//! caches globally whether a span is enabled, and another test's thread without a subscriber would disable it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar::{Bursar, Context, HandlerError, JobContext, JobKind, JobSpec, LeaseEnd, Payload, Queue, TraceParent};

/// A log in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_handler_runs_in_the_trace_of_its_enqueuer() {
    let (lines, bursar) = (Lines::default(), Bursar::open("sqlite::memory:").await.unwrap());
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
    let _log = tracing::subscriber::set_default(log);
    let parent: TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
    let context = Context { traceparent: Some(parent), ..Context::default() };
    let mut notices = bursar.listen();
    let spec = JobSpec::new(Queue::new("q").unwrap(), JobKind::new("k").unwrap(), Payload::default());
    let id = bursar.in_context(context).jobs().enqueue(spec).await.unwrap().id;
    let work = async |(): (), context: JobContext| {
        tracing::info!("at work");
        assert_eq!(context.job().traceparent.map(|parent| parent.to_string().len()), Some(55));
        Ok::<_, HandlerError>(())
    };
    let worker = bursar.worker().queue("q").on("k", work).start().unwrap();
    loop {
        let notice = tokio::time::timeout(Duration::from_secs(120), notices.next()).await.unwrap().unwrap().unwrap();
        let ended = notice.ended_attempt().map(|ended| (ended.job, ended.attempt, ended.traceparent, ended.end));
        let ends = notice.event().kind() == "job.succeeded";
        assert_eq!(ended, ends.then_some((id, 1, parent, LeaseEnd::Completed)), "{notice:?}");
        if notice.event().job() == Some(id) && notice.event().kind() == "job.succeeded" {
            break;
        }
    }
    worker.drain().await.unwrap();
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let line = text.lines().find(|line| line.contains("at work")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["span"]["trace_id"], "0af7651916cd43dd8448eb211c80319c", "{line}");
    assert_eq!((&line["span"]["name"], &line["span"]["id"]), (&"job".into(), &id.to_string().into()));
    let (events, _) = bursar.journal().read(0, 100).await.unwrap();
    assert!(events.len() >= 3 && events.iter().all(|event| event.traceparent == Some(parent)), "{events:?}");
    bursar.close().await;
}
