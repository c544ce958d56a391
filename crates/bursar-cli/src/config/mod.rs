//! The configuration: defaults, the file `bursar.toml`, the environment and flags. Later sources take precedence.
//!
//! [`settings`] is the single table of settings. The file and environment parsers, `bursar config check`, the flags of
//! `bursar serve` and the table in `docs/configuration.md` are derived from it.

mod blobs;
mod file;
mod flags;
#[cfg(test)]
mod fuzz;
mod journal;
mod kind;
mod meter;
mod otlp;
mod secret;
mod settings;
mod tenant_kept;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bursar::{Bursar, Options, PostgresOptions, Rules};
use bursar_server::{JwksSettings, JwksSource, JwtKey, JwtRules, Limits, Network, Settings};
use bursar_wire::problem::Problem;

pub(crate) use self::flags::Flags;
pub(crate) use self::kind::{Kind, has_password_parameter, split_password};
use self::meter::Quotas;
use self::otlp::Otlp;
pub(crate) use self::secret::{Database, Secret};
pub(crate) use self::settings::{Setting, markdown, settings};
use self::tenant_kept::TenantsKept;

/// The default database, in the working folder.
pub(crate) const DATABASE_DEFAULT: &str = "sqlite://bursar-data/bursar.db";
/// The configuration file that is read by default, if it exists.
pub(crate) const FILE_DEFAULT: &str = "bursar.toml";
/// The variable that names the configuration file.
pub(crate) const FILE_VARIABLE: &str = "BURSAR_CONFIG";
/// Variables that name a server and its token. They are not settings; `crate::target` reads them.
const CLIENT_VARIABLES: [&str; 4] = ["BURSAR_SERVER", "BURSAR_TOKEN", "BURSAR_MOVE_FROM", "BURSAR_MOVE_TO"];
/// The most bytes of a configuration file, or of a file with one value.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The values of all settings. `Config::default` has the default of each.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) database: Database,
    pub(crate) listen: SocketAddr,
    pub(crate) migrate: bool,
    pub(crate) operator_token: Option<Secret>,
    pub(crate) jwt: Jwt,
    pub(crate) log: Log,
    pub(crate) limits: Limits,
    pub(crate) trusted_proxies: Vec<Network>,
    pub(crate) engine: Engine,
    pub(crate) postgres: Postgres,
    pub(crate) rules: Retention,
    pub(crate) blobs: BlobStorage,
    pub(crate) journal: JournalArchive,
    pub(crate) meter: Quotas,
    pub(crate) otlp: Otlp,
}

/// How user tokens (JWTs) are checked.
#[derive(Debug)]
pub(crate) struct Jwt {
    pub(crate) secret: Option<Secret>,
    pub(crate) public_key: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) jwks_path: Option<String>,
    pub(crate) jwks_url: Option<String>,
    pub(crate) jwks_refresh: Duration,
}

impl Default for Jwt {
    fn default() -> Jwt {
        Jwt {
            secret: None,
            public_key: None,
            issuer: None,
            audience: None,
            jwks_path: None,
            jwks_url: None,
            jwks_refresh: Duration::from_secs(900),
        }
    }
}

impl Jwt {
    /// Returns where the key set is, and how often it is read.
    fn key_set(&self) -> Result<Option<JwksSettings>, Problem> {
        let source = match (&self.jwks_path, &self.jwks_url) {
            (None, None) => return Ok(None),
            (Some(path), None) => JwksSource::File(path.into()),
            (None, Some(url)) => JwksSource::at(url)
                .map_err(|error| Problem::invalid("jwt.jwks_url".into(), format!("jwt.jwks_url: {error}")))?,
            (Some(_), Some(_)) => {
                let detail =
                    "jwt.jwks_path and jwt.jwks_url are both set; a server has one key set, so unset one of them";
                return Err(Problem::invalid("jwt.jwks_url".into(), detail));
            }
        };
        Ok(Some(JwksSettings { refresh: self.jwks_refresh, ..JwksSettings::new(source) }))
    }
}

/// The format and the level of the log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) json: bool,
    pub(crate) level: String,
}

/// The engine's queue sizes and maintenance intervals.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) queue: usize,
    pub(crate) batch: usize,
    pub(crate) lanes: usize,
    pub(crate) patience: Duration,
    pub(crate) upkeep: Duration,
    pub(crate) rescue: Duration,
}

/// The PostgreSQL connection pool.
#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) connections: usize,
    pub(crate) connect: Duration,
    pub(crate) answer: Duration,
    pub(crate) pooled: bool,
    pub(crate) direct_url: Option<Database>,
    pub(crate) role: Option<String>,
    /// Set by `bursar migrate --force-row-security`.
    pub(crate) force_row_security: bool,
    pub(crate) listen: bool,
}

/// Where the bytes of blobs are.
#[derive(Debug, Default)]
pub(crate) struct BlobStorage {
    /// Whether new blobs go to the bucket.
    pub(crate) in_bucket: bool,
    pub(crate) directory: Option<String>,
    pub(crate) bucket: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) access_key_id: Option<String>,
    pub(crate) secret_access_key: Option<Secret>,
    pub(crate) prefix: Option<String>,
    pub(crate) redirect: bool,
}

/// Where old rows of the journal go.
#[derive(Debug)]
pub(crate) struct JournalArchive {
    /// A directory, or `blobs` for the storage of blobs; `None` if nothing is archived.
    pub(crate) archive: Option<String>,
    pub(crate) archived_after: Duration,
}

/// Lifetimes and retention, the same on all nodes of an installation.
#[derive(Debug)]
pub(crate) struct Retention {
    pub(crate) hold_ttl: Duration,
    pub(crate) hold_ttl_max: Duration,
    pub(crate) key_kept: Duration,
    pub(crate) postings_kept: Duration,
    pub(crate) holds_kept: Duration,
    pub(crate) grants_kept: Duration,
    pub(crate) costs_kept: Duration,
    pub(crate) tenants_kept: TenantsKept,
}

impl Default for Config {
    fn default() -> Config {
        let (postgres, rules) = (PostgresOptions::default(), Rules::default());
        Config {
            database: Database::new(DATABASE_DEFAULT),
            listen: SocketAddr::from(([127, 0, 0, 1], 7440)),
            migrate: true,
            operator_token: None,
            jwt: Jwt::default(),
            log: Log { json: false, level: "info".to_owned() },
            limits: Limits::default(),
            trusted_proxies: Vec::new(),
            engine: Engine {
                queue: Options::QUEUE,
                batch: Options::BATCH,
                lanes: Options::LANES,
                patience: Options::PATIENCE,
                upkeep: Options::UPKEEP,
                rescue: Options::RESCUE,
            },
            postgres: Postgres {
                connections: postgres.connections as usize,
                connect: postgres.connect_within,
                answer: postgres.answer_within,
                pooled: postgres.pooled,
                direct_url: None,
                role: None,
                force_row_security: false,
                listen: true,
            },
            rules: Retention {
                hold_ttl: rules.hold_ttl.into(),
                hold_ttl_max: rules.hold_ttl_max.into(),
                key_kept: rules.key_kept.into(),
                postings_kept: rules.postings_kept.into(),
                holds_kept: rules.holds_kept.into(),
                grants_kept: rules.grants_kept.into(),
                costs_kept: rules.costs_kept.into(),
                tenants_kept: rules.tenants,
            },
            blobs: BlobStorage::default(),
            journal: JournalArchive::default(),
            meter: Quotas::default(),
            otlp: Otlp::default(),
        }
    }
}

impl Config {
    /// Returns the options to open a database with. Fails if the archive of the journal is in an invalid storage.
    pub(crate) fn options(&self, url: &str) -> Result<Options, Problem> {
        let Engine { queue, batch, lanes, patience, upkeep, rescue } = self.engine;
        let postgres = PostgresOptions {
            connections: u32::try_from(self.postgres.connections).unwrap_or(u32::MAX),
            connect_within: self.postgres.connect,
            answer_within: self.postgres.answer,
            pooled: self.postgres.pooled,
            direct_url: self.postgres.direct_url.as_ref().map(|url| url.url().to_owned()),
            role: self.postgres.role.clone(),
            force_row_security: self.postgres.force_row_security,
            ..PostgresOptions::default()
        };
        let kept = &self.rules;
        let rules = Rules {
            hold_ttl: kept.hold_ttl.into(),
            hold_ttl_max: kept.hold_ttl_max.into(),
            key_kept: kept.key_kept.into(),
            postings_kept: kept.postings_kept.into(),
            holds_kept: kept.holds_kept.into(),
            grants_kept: kept.grants_kept.into(),
            costs_kept: kept.costs_kept.into(),
            tenants: kept.tenants_kept.clone(),
        };
        let options = Bursar::options(url)
            .rules(rules)
            .migrate(self.migrate)
            .queue(queue)
            .batch(batch)
            .lanes(lanes)
            .patience(patience)
            .upkeep(Some(upkeep))
            .rescue(rescue)
            .listen(self.postgres.listen)
            .postgres(postgres);
        Ok(match self.journal_archive(url)? {
            Some(archive) => options.archive(archive),
            None => options,
        })
    }

    /// Returns the database URL for a program that needs a session of the server, as `pg_dump` does. Fails if there is only a pooler.
    pub(crate) fn session_url(&self) -> Result<&str, Problem> {
        match &self.postgres {
            Postgres { direct_url: Some(url), .. } => Ok(url.url()),
            Postgres { pooled: true, .. } => {
                let detail = "backup and restore do not work through a pooler in transaction mode; nothing was changed; set \
                              postgres.direct_url to the URL of the server";
                Err(Problem::invalid("postgres.direct_url".into(), detail))
            }
            Postgres { .. } => Ok(self.database.url()),
        }
    }

    /// Returns the settings of a server on a database. Fails if a JWT key or the storage for blobs is invalid.
    pub(crate) fn server(&self, url: &str) -> Result<Settings, Problem> {
        let invalid =
            |name: &str, error: bursar_server::JwtError| Problem::invalid(name.into(), format!("{name}: {error}"));
        let mut jwt_keys = Vec::new();
        if let Some(secret) = &self.jwt.secret {
            let key = JwtKey::secret(secret.reveal().as_bytes());
            jwt_keys.push(key.map_err(|error| invalid("jwt.secret", error))?);
        }
        if let Some(pem) = &self.jwt.public_key {
            jwt_keys.push(JwtKey::public(pem).map_err(|error| invalid("jwt.public_key", error))?);
        }
        Ok(Settings {
            operator_token: self.operator_token.as_ref().map(|token| token.reveal().to_owned()),
            jwt_keys,
            jwks: self.jwt.key_set()?,
            jwt_rules: JwtRules { issuer: self.jwt.issuer.clone(), audience: self.jwt.audience.clone() },
            limits: self.limits.clone(),
            trusted_proxies: self.trusted_proxies.clone(),
            clock: None,
            meter: Some(self.meter.settings()),
            blobs: Some(self.blobs.open(url)?),
            redirect_downloads: self.blobs.redirect,
            otlp: self.otlp()?,
            login_codes: bursar_server::LoginCodes::default(),
        })
    }
}

/// Returns the file of a SQLite URL; `None` for PostgreSQL and for a database in memory.
pub(crate) fn sqlite_path(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"))?;
    (!path.is_empty() && path != ":memory:").then(|| Path::new(path))
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// A line of the configuration file, and the file with the value if the line names one.
    File(PathBuf, usize, Option<PathBuf>),
    /// A variable of the environment, and the file with the value if the variable names one.
    Environment(String, Option<PathBuf>),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (origin, file) = match self {
            Origin::Default => return f.write_str("default"),
            Origin::Flag(flag) => return f.write_str(flag),
            Origin::File(path, line, file) => (format!("{}:{line}", path.display()), file),
            Origin::Environment(name, file) => (name.clone(), file),
        };
        match file {
            Some(file) => write!(f, "{origin} ({})", file.display()),
            None => f.write_str(&origin),
        }
    }
}

/// The configuration, and the origin of each value.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// The origin of each setting, in the order of [`settings`].
    pub(crate) origins: Vec<Origin>,
    /// `BURSAR_` variables of the environment that are not settings.
    pub(crate) unknown: Vec<String>,
    /// Variables of OpenTelemetry whose values are invalid, so that they are ignored.
    pub(crate) ignored: Vec<String>,
}

/// A value for a setting, as text, with its origin.
struct Assignment {
    /// The index into [`settings`].
    setting: usize,
    text: String,
    origin: Origin,
}

/// Loads the variables of OpenTelemetry; then the named file, or the default one if it exists; then the environment; then flags.
pub(crate) fn load(file: Option<&Path>, flags: &Flags) -> Result<Loaded, Problem> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok();
        let name = name.filter(|name| name.starts_with("BURSAR_") || otlp::is_variable(name))?;
        Some((name, value.into_string().ok()))
    });
    load_from(file, &variables.collect::<Vec<_>>(), flags)
}

/// A variable of the environment; the value is `None` if it is not UTF-8.
type Variable = (String, Option<String>);

fn load_from(file: Option<&Path>, variables: &[Variable], flags: &Flags) -> Result<Loaded, Problem> {
    let (config, origins) = (Config::default(), vec![Origin::Default; settings().len()]);
    let (standard, ignored) = otlp::assignments(variables);
    let mut loaded = Loaded { config, origins, unknown: Vec::new(), ignored };
    standard.into_iter().try_for_each(|assignment| loaded.assign(assignment))?;
    let default = Path::new(FILE_DEFAULT);
    if let Some(path) = file.or_else(|| default.is_file().then_some(default)) {
        let file = file::read(path)?;
        file.assignments.into_iter().try_for_each(|assignment| loaded.assign(assignment))?;
        if let Some((meter, origins)) = file.meter {
            loaded.config.meter = Quotas::from(meter);
            origins.into_iter().for_each(|(setting, origin)| loaded.origins[setting] = origin);
        }
    }
    let (assignments, unknown) = environment(variables)?;
    assignments.into_iter().try_for_each(|assignment| loaded.assign(assignment))?;
    loaded.unknown = unknown;
    flags.assignments().try_for_each(|assignment| loaded.assign(assignment))?;
    loaded.prefer_own_receiver();
    Ok(loaded)
}

impl Loaded {
    fn assign(&mut self, assignment: Assignment) -> Result<(), Problem> {
        let Assignment { setting, text, origin } = assignment;
        let Setting { name, kind, .. } = &settings()[setting];
        kind.put(&mut self.config, &text).map_err(|error| {
            let place = match &origin {
                Origin::File(path, line, _) => format!("{}:{line}: ", path.display()),
                Origin::Environment(name, _) => format!("{name}: "),
                Origin::Flag(flag) => format!("{flag}: "),
                Origin::Default => String::new(),
            };
            problem(name, &format!("{place}{name} {error}"))
        })?;
        self.origins[setting] = origin;
        Ok(())
    }
}

/// Returns the settings of the environment, and the `BURSAR_` variables that are not settings.
fn environment(variables: &[Variable]) -> Result<(Vec<Assignment>, Vec<String>), Problem> {
    let (mut assignments, mut unknown): (Vec<Assignment>, Vec<String>) = (Vec::new(), Vec::new());
    for (name, value) in variables.iter().filter(|(name, _)| !otlp::is_variable(name)) {
        let by_name = |variable: &str| settings().iter().position(|setting| setting.variable() == variable);
        let (setting, is_file) = match (by_name(name), name.strip_suffix("_FILE").and_then(by_name)) {
            (Some(setting), _) => (setting, false),
            (None, Some(setting)) => (setting, true),
            (None, None) if name == FILE_VARIABLE || CLIENT_VARIABLES.contains(&name.trim_end_matches("_FILE")) => {
                continue;
            }
            (None, None) => {
                unknown.push(name.clone());
                continue;
            }
        };
        let key = settings()[setting].name;
        let value = value.as_ref().ok_or_else(|| problem(key, &format!("{name} is not UTF-8")))?;
        // An empty variable counts as unset.
        if value.is_empty() {
            continue;
        }
        if assignments.iter().any(|other| other.setting == setting) {
            let plain = settings()[setting].variable();
            return Err(problem(key, &format!("set either {plain} or {plain}_FILE, not both")));
        }
        let path = is_file.then(|| PathBuf::from(value));
        let text = match &path {
            Some(path) => read_value_file(path).map_err(|error| problem(key, &format!("{name}: {error}")))?,
            None => value.clone(),
        };
        assignments.push(Assignment { setting, text, origin: Origin::Environment(name.clone(), path) });
    }
    unknown.sort();
    Ok((assignments, unknown))
}

/// Reads a file with one value; whitespace around it is dropped.
pub(crate) fn read_value_file(path: &Path) -> Result<String, String> {
    let text = read_text(path)?;
    match text.trim() {
        "" => Err(format!("{} is empty", path.display())),
        text => Ok(text.to_owned()),
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let failed = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("{} has more than {FILE_BYTES_MAX} bytes", path.display())),
        false => Ok(text),
    }
}

fn problem(field: &str, detail: &str) -> Problem {
    Problem::invalid(field.to_owned(), detail)
}

#[cfg(test)]
mod tests;
