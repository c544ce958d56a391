//! `/v1/queues`.

use bursar_core::name::Queue;
use bursar_wire::Page;
use bursar_wire::event::EventAnswer;
use bursar_wire::queue::{QueueAnswer, QueueBody};

use crate::answered::Answered;
use crate::api::reason_body;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for queues. From [`Client::queues`].
#[derive(Clone, Copy, Debug)]
pub struct Queues<'a>(&'a Client);

impl Client {
    /// The calls for queues.
    pub fn queues(&self) -> Queues<'_> {
        Queues(self)
    }
}

/// The period of the figures of queues.
#[derive(Clone, Copy, Debug, Default)]
pub struct FiguresPeriod {
    /// Its length in minutes, up to now; default: 60.
    pub minutes: Option<u32>,
    /// Whether to return the counts of each minute as well.
    pub series: bool,
}

impl FiguresPeriod {
    fn append_to(self, path: Path) -> Path {
        path.query("minutes", self.minutes).query("series", self.series.then_some(true))
    }
}

fn at(name: &Queue) -> Path {
    Path::new("/v1/queues").part(name)
}

impl Queues<'_> {
    /// Returns a page of queues with their figures of the last 60 minutes, by name.
    pub async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Answered<Page<QueueAnswer>>, Error> {
        self.list_over(FiguresPeriod::default(), cursor, limit).await
    }

    /// Returns a page of queues with their figures of a period, by name.
    pub async fn list_over(
        &self,
        period: FiguresPeriod,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<QueueAnswer>>, Error> {
        let path = Path::new("/v1/queues").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(period.append_to(path)).answer().await
    }

    /// Returns a queue with its figures of the last `minutes`; default: 60.
    pub async fn show(&self, name: &Queue, minutes: Option<u32>) -> Result<Answered<QueueAnswer>, Error> {
        self.show_over(name, FiguresPeriod { minutes, series: false }).await
    }

    /// Returns a queue with its figures of a period.
    pub async fn show_over(&self, name: &Queue, period: FiguresPeriod) -> Result<Answered<QueueAnswer>, Error> {
        self.0.get(period.append_to(at(name))).answer().await
    }

    /// Returns a page of the changes of a queue, newest first.
    pub async fn history(
        &self,
        name: &Queue,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<EventAnswer>>, Error> {
        let path = at(name).then("history").query("cursor", cursor).query("limit", Some(limit));
        self.0.get(path).answer().await
    }

    /// Creates a queue or replaces its settings.
    pub async fn define(&self, name: &Queue, queue: &QueueBody) -> Result<Answered<QueueAnswer>, Error> {
        self.0.put(at(name), queue).answer().await
    }

    /// Pauses a queue: none of its jobs is leased.
    pub async fn pause(&self, name: &Queue, reason: Option<&str>) -> Result<Answered<QueueAnswer>, Error> {
        self.0.post(at(name).then("pause"), &reason_body(reason)).answer().await
    }

    /// Resumes a paused queue.
    pub async fn resume(&self, name: &Queue, reason: Option<&str>) -> Result<Answered<QueueAnswer>, Error> {
        self.0.post(at(name).then("resume"), &reason_body(reason)).answer().await
    }
}
