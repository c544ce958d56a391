//! The table of settings: the one place where a setting is declared.

use std::time::Duration;

use bursar::bounds;

use super::{Config, Kind};

/// A setting. How it is called in the environment and as a flag follows from its name.
pub(crate) struct Setting {
    /// Its name in the file, with its table before a point.
    pub(crate) name: &'static str,
    /// Where its value is kept, and what it may be.
    pub(crate) kind: Kind,
    /// What it is, in half a sentence.
    pub(crate) about: &'static str,
    /// It is shown by `--help` and not by `-h`.
    pub(crate) rare: bool,
}

impl Setting {
    const fn new(name: &'static str, kind: Kind, about: &'static str) -> Setting {
        Setting { name, kind, about, rare: false }
    }

    const fn rare(name: &'static str, kind: Kind, about: &'static str) -> Setting {
        Setting { name, kind, about, rare: true }
    }

    /// What it is called in the environment: `limits.body_ms` is `BURSAR_LIMITS_BODY_MS`.
    pub(crate) fn variable(&self) -> String {
        format!("BURSAR_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// The flag: `limits.body_ms` is `--limits-body-ms`.
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.replace(['.', '_'], "-"))
    }

    /// Its default as it may be shown; `None` where it is not set unless somebody sets it.
    pub(crate) fn default(&self) -> Option<String> {
        self.kind.show(&mut Config::default())
    }
}

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

const fn millis(least: u64, most: u64, at: fn(&mut Config) -> &mut Duration) -> Kind {
    Kind::Millis { least, most, at }
}

const fn count(least: usize, most: usize, at: fn(&mut Config) -> &mut usize) -> Kind {
    Kind::Count { least, most, at }
}

/// Every setting there is, in the order in which it is told.
pub(crate) fn settings() -> &'static [Setting] {
    SETTINGS
}

const SETTINGS: &[Setting] = &[
    Setting::new("database", Kind::Database(|c| &mut c.database), "where the data is"),
    Setting::new("listen", Kind::Address(|c| &mut c.listen), "where to listen"),
    Setting::new(
        "migrate",
        Kind::Switch(|c| &mut c.migrate),
        "make or upgrade the tables at the start; else they must be up to date",
    ),
    Setting::new("operator_token", Kind::Token(|c| &mut c.operator_token), "the operator's token"),
    Setting::new(
        "trusted_proxies",
        Kind::Networks(|c| &mut c.trusted_proxies),
        "proxies whose X-Forwarded-For is believed when failed attempts are counted; nobody's unless it is set",
    ),
    Setting::new("jwt.secret", Kind::Key(|c| &mut c.jwt.secret), "what tokens of users are signed with (HS256)"),
    Setting::new(
        "jwt.public_key",
        Kind::PublicKey(|c| &mut c.jwt.public_key),
        "the key that tokens of users are checked with (RS256, EdDSA)",
    ),
    Setting::new("jwt.issuer", Kind::Text(|c| &mut c.jwt.issuer), "what tokens of users must say of who signed them"),
    Setting::new("jwt.audience", Kind::Text(|c| &mut c.jwt.audience), "what they must say of whom they are for"),
    Setting::new("log.format", Kind::Either(["text", "json"], |c| &mut c.log.json), "how the log looks"),
    Setting::new("log.level", Kind::Filter(|c| &mut c.log.level), "what is logged"),
    Setting::new(
        "limits.connections",
        count(1, 1_000_000, |c| &mut c.limits.connections),
        "connections at once; one more waits to be accepted",
    ),
    Setting::new(
        "limits.requests",
        count(1, 1_000_000, |c| &mut c.limits.requests),
        "requests at once; one more is told to come again",
    ),
    Setting::new(
        "limits.waiting",
        count(1, 1_000_000, |c| &mut c.limits.waiting),
        "requests at once that wait for jobs, and streams of events",
    ),
    Setting::new(
        "limits.body_bytes",
        count(1 << 10, 32 << 20, |c| &mut c.limits.body_bytes),
        "bytes of a body; 4 MiB at most where a route does not take many items",
    ),
    Setting::rare(
        "limits.head_ms",
        millis(1, HOUR, |c| &mut c.limits.head),
        "how long the head of a request may take, and an idle connection is kept",
    ),
    Setting::rare("limits.body_ms", millis(1, HOUR, |c| &mut c.limits.body), "how long a body may take"),
    Setting::rare(
        "limits.heartbeat_ms",
        millis(1, HOUR, |c| &mut c.limits.heartbeat),
        "how often a listener to events hears something",
    ),
    Setting::rare(
        "limits.stall_ms",
        millis(1, HOUR, |c| &mut c.limits.stall),
        "how long a connection may move nothing of a body or an answer before it is closed",
    ),
    Setting::rare(
        "limits.rate_bytes",
        count(1, 1 << 30, |c| &mut c.limits.rate),
        "bytes a second that it must move on average once that long has passed",
    ),
    Setting::new(
        "limits.bytes",
        count(16 << 20, 1 << 40, |c| &mut c.limits.bytes),
        "bytes of bodies, answers and events that are kept at once; beyond it requests are told to come again",
    ),
    Setting::new(
        "limits.principal_bytes",
        count(16 << 20, 1 << 40, |c| &mut c.limits.principal_bytes),
        "the same for one principal",
    ),
    Setting::new(
        "limits.drain_ms",
        millis(1, HOUR, |c| &mut c.limits.drain),
        "how long requests under way may take when the server ends",
    ),
    Setting::new(
        "engine.queue",
        count(1, 10_000_000, |c| &mut c.engine.queue),
        "requests that may wait for a commit; one more is told to come again",
    ),
    Setting::rare(
        "engine.batch",
        count(1, 10_000, |c| &mut c.engine.batch),
        "requests that share a commit at most; on PostgreSQL never more than 500",
    ),
    Setting::new("engine.lanes", count(1, 64, |c| &mut c.engine.lanes), "batches that commit at once on PostgreSQL"),
    Setting::new(
        "engine.patience_ms",
        millis(1, HOUR, |c| &mut c.engine.patience),
        "how long a request waits for rows that somebody else has locked",
    ),
    Setting::rare(
        "engine.upkeep_ms",
        millis(10, DAY, |c| &mut c.engine.upkeep),
        "how often expired holds are written down and scopes tidied",
    ),
    Setting::rare(
        "engine.rescue_ms",
        millis(1, HOUR, |c| &mut c.engine.rescue),
        "how often lapsed leases and jobs that await budget are looked for",
    ),
    Setting::new(
        "postgres.connections",
        count(4, 1_000, |c| &mut c.postgres.connections),
        "connections to PostgreSQL at most, beside up to four for short statements and for listening",
    ),
    Setting::rare(
        "postgres.connect_ms",
        millis(1, HOUR, |c| &mut c.postgres.connect),
        "how long to wait for a free connection, or for the server",
    ),
    Setting::rare(
        "postgres.answer_ms",
        millis(1, HOUR, |c| &mut c.postgres.answer),
        "how long the server may take to answer a batch before it is taken for lost",
    ),
    Setting::rare(
        "postgres.listen",
        Kind::Switch(|c| &mut c.postgres.listen),
        "hear of other nodes' jobs by LISTEN, where that arrives; else they are looked for",
    ),
    Setting::rare(
        "rules.hold_ttl_ms",
        millis(1, bounds::TTL_MAX.millis().unsigned_abs(), |c| &mut c.rules.hold_ttl),
        "the time to live of a hold that neither its request nor its budgets say; the same on all nodes",
    ),
    Setting::new(
        "rules.key_kept_ms",
        millis(SECOND, 400 * DAY, |c| &mut c.rules.key_kept),
        "how long idempotency keys are remembered; the same on all nodes",
    ),
    Setting::new(
        "rules.postings_kept_ms",
        millis(HOUR, bounds::LENGTH_MAX.millis().unsigned_abs(), |c| &mut c.rules.postings_kept),
        "how long single postings are kept, and how far back a window may reach; the same on all nodes",
    ),
];

/// The table of `docs/configuration.md`.
pub(crate) fn markdown() -> String {
    let mut text = String::from("| setting | environment | flag | default | allowed | says |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for setting in settings() {
        let flag = if setting.kind.is_secret() { String::new() } else { format!("`{}`", setting.flag()) };
        let default = setting.default().map_or_else(String::new, |default| format!("`{default}`"));
        let cells = [
            format!("`{}`", setting.name),
            format!("`{}`", setting.variable()),
            flag,
            default,
            setting.kind.allowed(),
            setting.about.to_owned(),
        ];
        let cells = cells.map(|cell| if cell.is_empty() { " ".to_owned() } else { format!(" {cell} ") });
        text.push_str(&format!("|{}|\n", cells.join("|")));
    }
    text
}
