//! The table of settings: the one place where a setting is declared.

use std::time::Duration;

use bursar::{Span, bounds};

use super::{Config, Kind};

/// A setting. The names of its variable and its flag are derived from its name.
pub(crate) struct Setting {
    /// The name in the file: `table.key`, or `key` at the top level.
    pub(crate) name: &'static str,
    /// Where the value is stored, and which values are allowed.
    pub(crate) kind: Kind,
    /// A one-line description.
    pub(crate) about: &'static str,
    /// Whether only `--help` shows it, and `-h` does not.
    pub(crate) rare: bool,
}

impl Setting {
    const fn new(name: &'static str, kind: Kind, about: &'static str) -> Setting {
        Setting { name, kind, about, rare: false }
    }

    const fn rare(name: &'static str, kind: Kind, about: &'static str) -> Setting {
        Setting { name, kind, about, rare: true }
    }

    /// Returns the variable: `limits.body_ms` is `BURSAR_LIMITS_BODY_MS`.
    pub(crate) fn variable(&self) -> String {
        format!("BURSAR_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// Returns the flag: `limits.body_ms` is `--limits-body-ms`.
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.replace(['.', '_'], "-"))
    }

    /// Returns the default as it may be shown; `None` if the setting is unset by default.
    pub(crate) fn default(&self) -> Option<String> {
        self.kind.show(&mut Config::default())
    }
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// The longest retention, about a hundred years.
const KEPT_DAYS_MAX: u64 = 36_500;
const KEPT_MAX: u64 = KEPT_DAYS_MAX * DAY;

const fn millis(least: u64, most: u64, at: fn(&mut Config) -> &mut Duration) -> Kind {
    Kind::Millis { least, most, at }
}

const fn count(least: usize, most: usize, at: fn(&mut Config) -> &mut usize) -> Kind {
    Kind::Count { least, most, at }
}

/// Returns all settings, in the order in which they are listed.
pub(crate) fn settings() -> &'static [Setting] {
    SETTINGS
}

const SETTINGS: &[Setting] = &[
    Setting::new("database", Kind::Database(|c| &mut c.database), "URL of the database"),
    Setting::new("listen", Kind::Address(|c| &mut c.listen), "address to listen on"),
    Setting::new(
        "migrate",
        Kind::Bool(|c| &mut c.migrate),
        "create or upgrade the tables at startup; if false, they must be up to date",
    ),
    Setting::new("operator_token", Kind::Token(|c| &mut c.operator_token), "token of the operator"),
    Setting::new(
        "trusted_proxies",
        Kind::Networks(|c| &mut c.trusted_proxies),
        "networks of proxies whose X-Forwarded-For header names the client, for the limit on failed authentications; none by default",
    ),
    Setting::new("jwt.secret", Kind::Key(|c| &mut c.jwt.secret), "secret that signs user tokens (HS256)"),
    Setting::new(
        "jwt.public_key",
        Kind::PublicKey(|c| &mut c.jwt.public_key),
        "public key that verifies user tokens (RS256, EdDSA)",
    ),
    Setting::new(
        "jwt.jwks_path",
        Kind::Text(|c| &mut c.jwt.jwks_path),
        "file with the key set (JWKS) that verifies user tokens (RS256, EdDSA); it is read again at intervals",
    ),
    Setting::new(
        "jwt.jwks_url",
        Kind::KeySet(|c| &mut c.jwt.jwks_url),
        "address of the key set (JWKS) that verifies user tokens (RS256, EdDSA)",
    ),
    Setting::rare(
        "jwt.jwks_refresh_ms",
        millis(10 * SECOND, DAY, |c| &mut c.jwt.jwks_refresh),
        "interval at which the key set is read again; it is also read when a token names a key that it does not have",
    ),
    Setting::new("jwt.issuer", Kind::Text(|c| &mut c.jwt.issuer), "required issuer (`iss`) of user tokens"),
    Setting::new("jwt.audience", Kind::Text(|c| &mut c.jwt.audience), "required audience (`aud`) of user tokens"),
    Setting::new("log.format", Kind::Choice(["text", "json"], |c| &mut c.log.json), "format of the log"),
    Setting::new("log.level", Kind::LogFilter(|c| &mut c.log.level), "minimum level of logged events"),
    Setting::new(
        "otlp.endpoint",
        Kind::Receiver(|c| &mut c.otlp.endpoint),
        "address of a receiver of OpenTelemetry (OTLP over HTTP, as JSON); spans are sent to /v1/traces below it; without it, none are exported",
    ),
    Setting::rare(
        "otlp.traces_endpoint",
        Kind::Receiver(|c| &mut c.otlp.traces_endpoint),
        "full address for spans, in place of otlp.endpoint",
    ),
    Setting::new(
        "otlp.headers",
        Kind::Headers(|c| &mut c.otlp.headers),
        "headers for the receiver of spans, such as an API key",
    ),
    Setting::new(
        "otlp.sample",
        Kind::Part(|c| &mut c.otlp.sample),
        "part of the writes without a trace that start one; the caller's `traceparent` decides for all others",
    ),
    Setting::new(
        "otlp.service_name",
        Kind::Text(|c| &mut c.otlp.service_name),
        "name under which the spans appear; default: bursar",
    ),
    Setting::new(
        "limits.connections",
        count(1, 1_000_000, |c| &mut c.limits.connections),
        "maximum concurrent connections; further ones wait to be accepted",
    ),
    Setting::new(
        "limits.requests",
        count(1, 1_000_000, |c| &mut c.limits.requests),
        "maximum concurrent requests; further ones are answered 503 `overloaded`",
    ),
    Setting::new(
        "limits.waiting",
        count(1, 1_000_000, |c| &mut c.limits.waiting),
        "maximum concurrent event streams and requests that wait for jobs; further ones are answered 503 `overloaded`",
    ),
    Setting::new(
        "limits.body_bytes",
        count(1 << 10, 32 << 20, |c| &mut c.limits.body_bytes),
        "maximum bytes of a request body; on routes that take a single item at most 4 MiB",
    ),
    Setting::rare(
        "limits.head_ms",
        millis(1, HOUR, |c| &mut c.limits.head),
        "timeout for the head of a request, and for an idle connection",
    ),
    Setting::rare("limits.body_ms", millis(1, HOUR, |c| &mut c.limits.body), "timeout for a request body"),
    Setting::rare(
        "limits.heartbeat_ms",
        millis(1, HOUR, |c| &mut c.limits.heartbeat),
        "interval between keep-alive messages on event streams",
    ),
    Setting::rare(
        "limits.stall_ms",
        millis(1, HOUR, |c| &mut c.limits.stall),
        "time without progress on a body or an answer after which a connection is closed",
    ),
    Setting::rare(
        "limits.rate_bytes",
        count(1, 1 << 30, |c| &mut c.limits.rate),
        "minimum average bytes per second of a connection; a slower one is closed once limits.stall_ms have passed",
    ),
    Setting::new(
        "limits.bytes",
        count(16 << 20, 1 << 40, |c| &mut c.limits.bytes),
        "maximum bytes of bodies, answers and events in memory; further requests are answered 503 `overloaded`",
    ),
    Setting::new(
        "limits.principal_bytes",
        count(16 << 20, 1 << 40, |c| &mut c.limits.principal_bytes),
        "maximum bytes in memory for one principal; further requests are answered 429 `too-many-bytes`",
    ),
    Setting::new(
        "limits.metric_queues",
        count(0, 1_000, |c| &mut c.limits.metric_queues),
        "maximum queues with metrics of their own; the others share the label `(other)`",
    ),
    Setting::new(
        "limits.drain_ms",
        millis(1, HOUR, |c| &mut c.limits.drain),
        "time to finish requests in flight at shutdown",
    ),
    Setting::new(
        "engine.queue",
        count(1, 10_000_000, |c| &mut c.engine.queue),
        "maximum requests waiting for a commit; further ones are answered 503 `overloaded`",
    ),
    Setting::rare(
        "engine.batch",
        count(1, 10_000, |c| &mut c.engine.batch),
        "maximum requests per batch; never above 500 on PostgreSQL",
    ),
    Setting::new("engine.lanes", count(1, 64, |c| &mut c.engine.lanes), "concurrent batches on PostgreSQL"),
    Setting::new(
        "engine.patience_ms",
        millis(1, HOUR, |c| &mut c.engine.patience),
        "time to wait for rows that another transaction has locked",
    ),
    Setting::rare(
        "engine.upkeep_ms",
        millis(10, DAY, |c| &mut c.engine.upkeep),
        "interval between runs that record expired holds and clean up scopes",
    ),
    Setting::rare(
        "engine.rescue_ms",
        millis(1, HOUR, |c| &mut c.engine.rescue),
        "interval between checks for expired leases and for jobs that await budget",
    ),
    Setting::new(
        "postgres.connections",
        count(4, 1_000, |c| &mut c.postgres.connections),
        "maximum connections to PostgreSQL, in addition to up to four for short statements and LISTEN",
    ),
    Setting::rare(
        "postgres.connect_ms",
        millis(1, HOUR, |c| &mut c.postgres.connect),
        "time to wait for a free connection, or for the PostgreSQL server",
    ),
    Setting::rare(
        "postgres.answer_ms",
        millis(1, HOUR, |c| &mut c.postgres.answer),
        "time to wait for PostgreSQL to answer a batch or a read before the connection counts as lost",
    ),
    Setting::new(
        "postgres.pooled",
        Kind::Bool(|c| &mut c.postgres.pooled),
        "whether `database` leads to a pooler in transaction mode, such as PgBouncer",
    ),
    Setting::new(
        "postgres.direct_url",
        Kind::Server(|c| &mut c.postgres.direct_url),
        "URL of the server behind the pooler, for LISTEN, migrations, backup and restore; without it, nodes poll and the last two are refused",
    ),
    Setting::new(
        "postgres.role",
        Kind::Text(|c| &mut c.postgres.role),
        "role that transactions take, so that row-level security separates tenants too; it owns nothing",
    ),
    Setting::rare(
        "postgres.listen",
        Kind::Bool(|c| &mut c.postgres.listen),
        "use LISTEN to learn of other nodes' jobs; if false or unsupported, poll for them",
    ),
    Setting::new(
        "blobs.backend",
        Kind::Choice(["local", "s3"], |c| &mut c.blobs.in_bucket),
        "where the bytes of new blobs go; blobs in the other backend are still served if it is configured",
    ),
    Setting::new(
        "blobs.directory",
        Kind::Text(|c| &mut c.blobs.directory),
        "directory for the bytes of blobs; default: `blobs` beside the SQLite file, or bursar-data/blobs",
    ),
    Setting::new("blobs.s3_bucket", Kind::Text(|c| &mut c.blobs.bucket), "bucket of an S3-compatible service"),
    Setting::new(
        "blobs.s3_endpoint",
        Kind::Text(|c| &mut c.blobs.endpoint),
        "address of the service, such as http://127.0.0.1:3900; default: AWS",
    ),
    Setting::new("blobs.s3_region", Kind::Text(|c| &mut c.blobs.region), "region of the bucket; default: us-east-1"),
    Setting::new(
        "blobs.s3_access_key_id",
        Kind::Text(|c| &mut c.blobs.access_key_id),
        "id of the key that has access to the bucket",
    ),
    Setting::new(
        "blobs.s3_secret_access_key",
        Kind::Secret(|c| &mut c.blobs.secret_access_key),
        "secret of the key that has access to the bucket",
    ),
    Setting::rare(
        "blobs.s3_prefix",
        Kind::Text(|c| &mut c.blobs.prefix),
        "what the names of all objects in the bucket begin with",
    ),
    Setting::rare(
        "blobs.redirect",
        Kind::Bool(|c| &mut c.blobs.redirect),
        "redirect downloads from the bucket to signed addresses of the service",
    ),
    Setting::new(
        "journal.archive",
        Kind::Text(|c| &mut c.journal.archive),
        "archive for old rows of the journal: a directory, or `blobs` for the storage of blobs; without it, all rows stay in the database",
    ),
    Setting::new(
        "journal.archived_after_ms",
        millis(HOUR, KEPT_MAX, |c| &mut c.journal.archived_after),
        "age from which rows of the journal are archived",
    ),
    Setting::new(
        "meter.enabled",
        Kind::Bool(|c| &mut c.meter.enabled),
        "charge users, agents and viewers for their requests to this server; the table [meter] of the file enables it too",
    ),
    Setting::new(
        "meter.quota",
        Kind::Quota(|c| &mut c.meter.quota),
        "default quota of each metered caller, also of `/v1/meter/check`; must be the same on all nodes",
    ),
    Setting::new(
        "meter.on_failure",
        Kind::Choice(["open", "closed"], |c| &mut c.meter.refuse_on_failure),
        "whether this server serves (open) or refuses (closed) a request whose quota cannot be checked",
    ),
    Setting::rare(
        "meter.patience_ms",
        millis(1, 600 * SECOND, |c| &mut c.meter.patience),
        "time to wait for the check of a quota before meter.on_failure applies",
    ),
    Setting::rare(
        "meter.bypass",
        Kind::Paths(|c| &mut c.meter.bypass),
        "paths that cost nothing; default: those of health checks, metrics and documentation",
    ),
    Setting::rare(
        "rules.hold_ttl_ms",
        millis(1, bounds::TTL_MAX.millis().unsigned_abs(), |c| &mut c.rules.hold_ttl),
        "time to live of a hold if neither the request nor its budgets set one; must be the same on all nodes",
    ),
    Setting::rare(
        "rules.hold_ttl_max_ms",
        millis(1, bounds::TTL_MAX.millis().unsigned_abs(), |c| &mut c.rules.hold_ttl_max),
        "longest time to live of a hold on budgets that set none; must be the same on all nodes",
    ),
    Setting::new(
        "rules.key_kept_ms",
        millis(SECOND, 400 * DAY, |c| &mut c.rules.key_kept),
        "time that idempotency keys are kept; must be the same on all nodes",
    ),
    Setting::new(
        "rules.postings_kept_ms",
        millis(HOUR, bounds::LENGTH_MAX.millis().unsigned_abs(), |c| &mut c.rules.postings_kept),
        "time that individual postings are kept, which is also the longest possible window; must be the same on all nodes",
    ),
    Setting::new(
        "rules.holds_kept_ms",
        millis(MINUTE, KEPT_MAX, |c| &mut c.rules.holds_kept),
        "time that holds are kept after their end; a hold that is gone cannot be read, credited or committed late",
    ),
    Setting::new(
        "rules.grants_kept_ms",
        millis(0, KEPT_MAX, |c| &mut c.rules.grants_kept),
        "time that grants, tokens and links are kept after their expiry",
    ),
    Setting::new(
        "rules.costs_kept_ms",
        millis(DAY, KEPT_MAX, |c| &mut c.rules.costs_kept),
        "time that the daily costs of jobs are kept",
    ),
    Setting::new(
        "rules.tenants_kept",
        Kind::TenantsKept {
            bounds: [
                (Span::from_secs(60), Span::from_days(KEPT_DAYS_MAX)),
                (Span::ZERO, Span::from_days(KEPT_DAYS_MAX)),
                (Span::from_days(1), Span::from_days(KEPT_DAYS_MAX)),
            ],
            at: |c| &mut c.rules.tenants_kept,
        },
        "tenants whose holds, grants or costs are kept for another time than those of all tenants",
    ),
];

/// Formats the table of `docs/configuration.md`.
pub(crate) fn markdown() -> String {
    let mut text = String::from("| setting | environment | flag | default | allowed | description |\n");
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
