//! Queues.

use bursar_core::name::Queue;
use bursar_wire::Page;
use bursar_wire::queue::{QueueAnswer, QueueBody};

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::faces::because;
use crate::path::Path;

/// Queues: how their jobs are leased, tried again and kept.
#[derive(Clone, Copy, Debug)]
pub struct Queues<'a>(&'a Client);

impl Client {
    /// Queues.
    pub fn queues(&self) -> Queues<'_> {
        Queues(self)
    }
}

fn at(name: &Queue) -> Path {
    Path::new("/v1/queues").part(name)
}

impl Queues<'_> {
    /// Queues by name, a page of them.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<QueueAnswer>>, Error> {
        let path = Path::new("/v1/queues").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// A queue, with what happened in it in the last so many minutes; an hour unless it is said.
    pub async fn show(&self, name: &Queue, minutes: Option<u32>) -> Result<Answered<QueueAnswer>, Error> {
        self.0.get(at(name).query("minutes", minutes)).answer().await
    }

    /// Sets up or changes a queue, as a whole.
    pub async fn define(&self, name: &Queue, queue: &QueueBody) -> Result<Answered<QueueAnswer>, Error> {
        self.0.put(at(name), queue).answer().await
    }

    /// Leases nothing more from it.
    pub async fn pause(&self, name: &Queue, reason: Option<&str>) -> Result<Answered<QueueAnswer>, Error> {
        self.0.post(at(name).then("pause"), &because(reason)).answer().await
    }

    /// Leases from it again.
    pub async fn resume(&self, name: &Queue, reason: Option<&str>) -> Result<Answered<QueueAnswer>, Error> {
        self.0.post(at(name).then("resume"), &because(reason)).answer().await
    }
}
