//! The rows of `meta` that a move leaves in both databases, and the errors they lead to.
//!
//! | row | in | meaning |
//! | --- | --- | --- |
//! | `moving` | the target | The move has not ended. The row `schema` is missing until then, so that no build opens the tables. |
//! | `moved` | the source | Its contents are in another database. Triggers refuse every write. |
//! | `moved_from` | the target | The move has ended. |
//!
//! The row `erasures` counts the transactions that have overwritten rows of the journal. A move compares it to notice that rows have changed
//! since they were read.

use serde::{Deserialize, Serialize};

use crate::codec::{from_json, to_json};
use crate::error::StoreError;

pub(crate) const SCHEMA: &str = "schema";
pub(crate) const MOVING: &str = "moving";
pub(crate) const MOVED: &str = "moved";
pub(crate) const MOVED_FROM: &str = "moved_from";
pub(crate) const ERASURES: &str = "erasures";

/// How the error of a trigger in a moved database begins. The place follows.
const REFUSAL: &str = "bursar: this database was moved to ";
/// The same in a database whose move was abandoned.
const REFUSAL_ABANDONED: &str = "bursar: the move into this database was abandoned, from ";

/// The SQLSTATE of that error on PostgreSQL.
pub(crate) const REFUSAL_CODE: &str = "BM001";

/// A move into this database that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moving {
    /// The place of the source.
    pub(crate) from: String,
    /// The run of `bursar move` that may write. A later run replaces it, and the earlier one fails at its next write.
    pub(crate) run: String,
    /// The schema version of the tables.
    pub(crate) schema: i64,
}

/// The database that is used in place of this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moved {
    pub(crate) to: String,
    /// The last position of the journal.
    pub(crate) position: i64,
    /// Whether this one was the target of a move that was abandoned. The other one is its source.
    #[serde(default)]
    pub(crate) abandoned: bool,
}

/// Why a database becomes read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// It was moved.
    Moved,
    /// The move into it is abandoned. Its journal must still end at this position.
    Abandoned(u64),
}

impl Switch {
    /// Returns the mark of a database whose journal ends at `position`; `None` if it must end elsewhere.
    pub(crate) fn mark(self, to: &str, position: u64) -> Option<Moved> {
        let (to, abandoned) = (to.to_owned(), matches!(self, Switch::Abandoned(_)));
        let may = !matches!(self, Switch::Abandoned(expected) if expected != position);
        may.then(|| Moved { to, position: i64::try_from(position).unwrap_or(i64::MAX), abandoned })
    }
}

/// The database that this one was moved from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MovedFrom {
    pub(crate) from: String,
    /// The last position of the journal at that time.
    pub(crate) position: i64,
}

/// The marks of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The version of the tables; `None` without tables, and while a move into them has not ended.
    pub(crate) schema: Option<i64>,
    pub(crate) moving: Option<Moving>,
    pub(crate) moved: Option<Moved>,
    pub(crate) moved_from: Option<MovedFrom>,
    /// How many transactions have overwritten rows of the journal.
    pub(crate) erasures: u64,
}

impl Marks {
    /// Reads the marks from the rows of `meta`.
    pub(crate) fn read(rows: impl IntoIterator<Item = (String, String)>) -> Result<Marks, StoreError> {
        let mut marks = Marks::default();
        for (key, value) in rows {
            match key.as_str() {
                SCHEMA => {
                    marks.schema = Some(value.parse().map_err(|_| StoreError::corrupt("schema version", &value))?);
                }
                MOVING => marks.moving = Some(from_json("mark of a move", &value)?),
                MOVED => marks.moved = Some(from_json("mark of a move", &value)?),
                MOVED_FROM => marks.moved_from = Some(from_json("mark of a move", &value)?),
                ERASURES => marks.erasures = from_json("number of erasures", &value)?,
                _ => {}
            }
        }
        Ok(marks)
    }

    /// Fails if the database may not be used because it is a part of a move.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if let Some(Moving { from, .. }) = &self.moving {
            return Err(StoreError::Unavailable {
                what: format!("this database is incomplete: a move from {from} into it has not ended"),
                hint: "nothing was changed; run `bursar move` again with the same --from and --to, which resumes it",
                permanent: true,
                source: None,
            });
        }
        match &self.moved {
            Some(moved) => Err(used_instead(&moved.to, moved.abandoned, true)),
            None => Ok(()),
        }
    }
}

pub(crate) fn mark(value: &impl Serialize) -> String {
    to_json(value)
}

/// Returns the message of the triggers in a database that was moved.
pub(crate) fn refusal(moved: &Moved) -> String {
    format!("{}{}", if moved.abandoned { REFUSAL_ABANDONED } else { REFUSAL }, moved.to)
}

/// Returns the error for the message of a trigger, if it is one of a move.
pub(crate) fn refused_write(message: &str) -> Option<StoreError> {
    // A write that this process cannot make, another one can: the caller retries, and reaches the new place when it is served.
    let refused = |prefix, abandoned| message.strip_prefix(prefix).map(|to| used_instead(to, abandoned, false));
    refused(REFUSAL, false).or_else(|| refused(REFUSAL_ABANDONED, true))
}

fn used_instead(place: &str, abandoned: bool, permanent: bool) -> StoreError {
    let (what, hint) = if abandoned {
        (
            format!("the move into this database was abandoned; {place} is used, and this one is read-only"),
            "nothing was changed; use that database",
        )
    } else {
        (
            format!("this database was moved to {place} and is read-only"),
            "nothing was changed; use the new database, or end the move with `bursar move --abandon` if that cannot be used",
        )
    };
    StoreError::Unavailable { what, hint, permanent, source: None }
}
