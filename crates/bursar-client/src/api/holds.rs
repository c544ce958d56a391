//! `/v1/holds`.

use std::time::Duration;

use bursar_core::id::HoldId;
use bursar_core::name::Scope;
use bursar_wire::Page;
use bursar_wire::command::CommandAnswer;
use bursar_wire::event::EventAnswer;
use bursar_wire::hold::{CommitBody, ExtendBody, ExtendedAnswer, HoldAnswer, HoldBody, SettledAnswer};

use crate::answered::Answered;
use crate::api::reason_body;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// The calls for holds. From [`Client::holds`].
#[derive(Clone, Copy, Debug)]
pub struct Holds<'a>(&'a Client);

impl Client {
    /// The calls for holds.
    pub fn holds(&self) -> Holds<'_> {
        Holds(self)
    }
}

fn at(id: HoldId) -> Path {
    Path::new("/v1/holds").part(id)
}

impl Holds<'_> {
    /// Places a hold. The answer contains the hold and what each limit leaves.
    pub async fn place(&self, hold: &HoldBody) -> Result<Answered<CommandAnswer>, Error> {
        self.0.post(Path::new("/v1/holds"), hold).answer().await
    }

    /// Returns a hold.
    pub async fn show(&self, id: HoldId) -> Result<Answered<HoldAnswer>, Error> {
        self.0.get(at(id)).answer().await
    }

    /// Returns a hold as it was at a moment: a time in RFC 3339, or a position of the journal. `None` is now.
    pub async fn show_at(&self, id: HoldId, moment: Option<&str>) -> Result<Answered<HoldAnswer>, Error> {
        self.0.get(at(id).query("at", moment)).answer().await
    }

    /// Returns a page of the unsettled holds on a scope, in the order of their expiry; `state` is `held` or `expired`.
    pub async fn list(
        &self,
        scope: &Scope,
        state: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<HoldAnswer>>, Error> {
        let path = Path::new("/v1/holds").query("scope", Some(scope)).query("state", state);
        self.0.get(path.query("cursor", cursor).query("limit", Some(limit))).answer().await
    }

    /// Commits a hold: posts the units that were spent and frees the rest.
    pub async fn commit(&self, id: HoldId, actual: &CommitBody) -> Result<Answered<SettledAnswer>, Error> {
        self.0.post(at(id).then("commit"), actual).answer().await
    }

    /// Releases a hold: frees its units.
    pub async fn release(&self, id: HoldId, reason: Option<&str>) -> Result<Answered<SettledAnswer>, Error> {
        self.0.post(at(id).then("release"), &reason_body(reason)).answer().await
    }

    /// Extends a hold.
    pub async fn extend(&self, id: HoldId, by: Duration) -> Result<Answered<ExtendedAnswer>, Error> {
        let body = ExtendBody { by_ms: i64::try_from(by.as_millis()).unwrap_or(i64::MAX) };
        self.0.post(at(id).then("extend"), &body).answer().await
    }

    /// Returns a page of the events of a hold, newest first.
    pub async fn history(
        &self,
        id: HoldId,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Answered<Page<EventAnswer>>, Error> {
        self.0.get(at(id).then("history").query("cursor", cursor).query("limit", Some(limit))).answer().await
    }
}
