//! Drives apalis on the engine that the address of the database names.

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

/// Workers of apalis, each with a way to end it.
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

    /// What a worker that is being added waits for.
    fn signal(&mut self) -> impl Future<Output = Result<(), std::io::Error>> + Send + use<> {
        let (stop, stopped) = oneshot::channel();
        self.stops.push(stop);
        async move {
            // A sender that is gone says the same as one that sent.
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
