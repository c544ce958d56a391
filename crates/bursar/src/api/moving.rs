//! Moving a database to another place or engine.

use std::sync::{Arc, Mutex};

use bursar_core::decide::Rules;
use bursar_store::moving::{abandon, relocate};
use bursar_store::{MoveOptions, MovePlace, MoveProgress, MoveReport, Setup, StoreError};

use crate::api::instance::Bursar;
use crate::api::options::Location;
use crate::error::Error;
use crate::ids::RandomIds;

impl Bursar {
    /// Moves the database at a URL to another one, which is empty and may be of the other engine: the journal with its positions, ids,
    /// balances, holds, jobs with their leases, schedules, credentials and idempotency keys. An interrupted move is resumed by calling this
    /// again. Until the target is complete, compared and verified, opening it fails.
    ///
    /// The source is only read, and must not be in use. With `follow` it stays in use until it is switched: every process then fails to
    /// write to it, with an error that names the target. If the move fails after that, the source can be written again.
    /// [`Bursar::abandon_move`] takes a switch back.
    ///
    /// Both URLs must lead to a database, not to a pooler. The bytes of blobs are not moved, only their records.
    pub async fn relocate(from: &str, to: &str, follow: bool, progress: MoveProgress) -> Result<MoveReport, Error> {
        let options = MoveOptions { follow, setup: setup(), progress };
        Ok(relocate(&place(from)?, &place(to)?, options).await?)
    }

    /// Makes the source of a move writable again and its target read-only. Fails if the target has had an event since the move. Without
    /// a target, which must then be lost or never have been used, only the source is changed. Returns the last position of the journal.
    pub async fn abandon_move(from: &str, to: Option<&str>) -> Result<u64, Error> {
        let options = MoveOptions { follow: true, setup: setup(), progress: Arc::new(|_| ()) };
        let to = to.map(place).transpose()?;
        Ok(abandon(&place(from)?, to.as_ref(), &options).await?)
    }
}

fn place(url: &str) -> Result<MovePlace, Error> {
    match Location::parse(url)? {
        Location::File(path) => Ok(MovePlace::Sqlite(path)),
        Location::Postgres => Ok(MovePlace::Postgres(url.to_owned())),
        Location::Memory => Err(StoreError::Unavailable {
            what: "a database in memory cannot be moved".into(),
            hint: "nothing was changed; name a file with sqlite://PATH, or a server",
            permanent: true,
            source: None,
        }
        .into()),
    }
}

fn setup() -> Setup {
    let ids = Arc::new(Mutex::new(RandomIds::default()));
    Setup { rules: Rules::default(), clock: None, ids, migrate: false }
}
