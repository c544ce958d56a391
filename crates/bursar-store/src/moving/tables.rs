//! The tables that a move copies, with their columns, and rows of them in a form that both engines share.
//!
//! Both engines store the same bytes in columns of the same names, so a row is copied without being decoded. The exceptions:
//! - PostgreSQL splits counters over lanes; a row has their sum.
//! - The id of a journal row is a column on PostgreSQL, and the position on SQLite ([`Kind::JournalId`], [`Holds`]).

/// A table, without the prefix of its name on either engine.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The number of leading columns that identify a row.
    pub(crate) key: usize,
    pub(crate) columns: &'static [Column],
    /// Whether PostgreSQL splits a row over lanes, of which all columns after the key are sums.
    pub(crate) lanes: bool,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) holds: Holds,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Id,
    IdOrNull,
    /// The id of a journal row. SQLite has no such column: the id is the position.
    JournalId,
    Int,
    /// `smallint` on PostgreSQL.
    Small,
    /// `integer` on PostgreSQL.
    Int4,
    Text,
    TextOrNull,
    Bytes,
}

/// What a column holds that names journal rows by their ids. These ids differ between the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// No id of a journal row.
    Plain,
    BatchId,
    Links,
    Scope,
    Hold,
    Grant,
    LiveJob,
    EndedJob,
    Blob,
    Queue,
    Schedule,
    Namespace,
}

/// A value of a column. Values of one column compare as both engines order them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Id(u128),
    Text(String),
    Bytes(Vec<u8>),
}

/// The values of a row, in the order of the columns.
pub(crate) type Row = Vec<Value>;

impl Value {
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn id(&self) -> Option<u128> {
        match self {
            Value::Id(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(value) => Some(value),
            _ => None,
        }
    }
}

/// The memory that a row takes, about.
pub(crate) fn row_bytes(row: &Row) -> usize {
    let value = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Null | Value::Int(_) | Value::Id(_) => 0,
    };
    row.iter().map(|v| size_of::<Value>() + value(v)).sum()
}

/// The journal. Its rows are only appended, and changed only to erase payloads.
pub(crate) const JOURNAL: &Table = &TABLES[0];

impl Table {
    pub(crate) fn is_journal(&self) -> bool {
        self.name == JOURNAL.name
    }

    pub(crate) fn keys(&self) -> &'static [Column] {
        &self.columns[..self.key]
    }

    /// Returns the index of a column.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

const fn plain(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, holds: Holds::Plain }
}

const fn id(name: &'static str) -> Column {
    plain(name, Kind::Id)
}

const fn int(name: &'static str) -> Column {
    plain(name, Kind::Int)
}

const fn small(name: &'static str) -> Column {
    plain(name, Kind::Small)
}

const fn text(name: &'static str) -> Column {
    plain(name, Kind::Text)
}

const fn bytes(name: &'static str, holds: Holds) -> Column {
    Column { name, kind: Kind::Bytes, holds }
}

const fn json(name: &'static str, holds: Holds) -> Column {
    Column { name, kind: Kind::Text, holds }
}

const fn table(name: &'static str, key: usize, columns: &'static [Column]) -> Table {
    Table { name, key, columns, lanes: false }
}

const fn counter(name: &'static str, key: usize, columns: &'static [Column]) -> Table {
    Table { name, key, columns, lanes: true }
}

/// All tables but `meta`, `journal_segments`, because an archived journal is not moved, and `journal_new`, whose rows get positions before a
/// move. The journal is first: a target that has a row of
/// another table has the journal that led to it, or is not complete.
pub(crate) const TABLES: &[Table] = &[
    table(
        "journal",
        1,
        &[
            int("position"),
            Column { name: "id", kind: Kind::JournalId, holds: Holds::BatchId },
            int("at"),
            plain("count", Kind::Int4),
            json("prev", Holds::Links),
            text("entries"),
        ],
    ),
    table("payloads", 1, &[id("id"), text("data")]),
    table(
        "scopes",
        2,
        &[
            text("tenant"),
            text("scope"),
            int("version"),
            bytes("state", Holds::Scope),
            plain("budget", Kind::TextOrNull),
        ],
    ),
    table("holds", 1, &[id("id"), text("tenant"), small("state"), int("expires_at"), bytes("data", Holds::Hold)]),
    table(
        "live_charges",
        4,
        &[
            text("tenant"),
            text("scope"),
            int("expires_at"),
            id("hold"),
            int("placed_at"),
            int("amount"),
            int("on_expiry"),
        ],
    ),
    table(
        "postings",
        4,
        &[text("tenant"), text("scope"), int("at"), int("seq"), int("amount"), plain("hold", Kind::IdOrNull)],
    ),
    table("rollups", 2, &[text("tenant"), text("scope"), int("amount")]),
    table("grants", 1, &[id("id"), text("tenant"), small("state"), int("expires_at"), bytes("data", Holds::Grant)]),
    table(
        "keys",
        2,
        &[
            text("tenant"),
            text("key"),
            id("fingerprint"),
            Column { name: "batch", kind: Kind::Id, holds: Holds::BatchId },
            id("command"),
            int("until"),
        ],
    ),
    table("job_keys", 3, &[text("tenant"), text("queue"), text("key"), id("job")]),
    table(
        "jobs",
        1,
        &[
            id("id"),
            text("tenant"),
            text("queue"),
            text("kind"),
            text("flow"),
            small("state"),
            int("rank"),
            int("at"),
            plain("awaits", Kind::TextOrNull),
            bytes("spec", Holds::Plain),
            bytes("life", Holds::LiveJob),
        ],
    ),
    table(
        "ended_jobs",
        1,
        &[
            id("id"),
            text("tenant"),
            text("queue"),
            text("kind"),
            small("state"),
            int("at"),
            bytes("data", Holds::EndedJob),
            plain("fingerprint", Kind::TextOrNull),
        ],
    ),
    table("queues", 2, &[text("tenant"), text("queue"), json("data", Holds::Queue)]),
    table("schedules", 2, &[text("tenant"), text("name"), int("next_at"), json("data", Holds::Schedule)]),
    counter("tallies", 4, &[text("tenant"), text("queue"), small("what"), int("minute"), int("count")]),
    counter("costs", 5, &[text("tenant"), int("day"), text("queue"), text("kind"), text("scope"), int("amount")]),
    counter("held", 4, &[text("tenant"), text("queue"), text("kind"), text("unit"), int("high"), int("low")]),
    counter("dead_groups", 4, &[text("tenant"), text("queue"), text("kind"), text("fingerprint"), int("count")]),
    table(
        "blobs",
        1,
        &[id("id"), text("tenant"), text("namespace"), small("state"), int("at"), bytes("data", Holds::Blob)],
    ),
    table("blob_digests", 3, &[text("tenant"), text("namespace"), plain("digest", Kind::Bytes), id("blob")]),
    table("namespaces", 2, &[text("tenant"), text("namespace"), json("data", Holds::Namespace)]),
];
