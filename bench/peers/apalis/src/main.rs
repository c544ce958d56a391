//! Drives apalis on the engine of the database URL.

mod postgres;
mod sqlite;

use clap::Parser;
use peer_measure::{Ask, run};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VERSION: &str = "1.0.0";
const QUEUE: &str = "work";

/// Running workers with their stop signals.
pub(crate) struct Workers {
    stops: Vec<oneshot::Sender<()>>,
    running: JoinSet<()>,
}

#[tokio::main]
async fn main() {
    let ask = Ask::parse();
    if ask.database.starts_with("sqlite:") {
        run(sqlite::Sqlite::open(&ask).await, &ask).await;
    } else {
        run(postgres::Postgres::open(&ask).await, &ask).await;
    }
}

impl Workers {
    fn new() -> Workers {
        Workers { stops: Vec::new(), running: JoinSet::new() }
    }

    /// Returns the stop signal for a new worker.
    fn signal(&mut self) -> impl Future<Output = Result<(), std::io::Error>> + Send + use<> {
        let (stop, stopped) = oneshot::channel();
        self.stops.push(stop);
        async move {
            // A dropped sender is a stop signal as well.
            let _ = stopped.await;
            Ok(())
        }
    }

    async fn stop(self) {
        for stop in self.stops {
            stop.send(()).expect("a worker runs until it is stopped");
        }
        self.running.join_all().await;
    }
}
