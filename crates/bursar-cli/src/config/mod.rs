//! Configuration: the defaults, the file `bursar.toml`, the environment, flags. What comes later wins.
//!
//! [`settings`] is the one table of what can be set. Reading, `bursar config check`, the flags of `bursar serve`, the table in
//! `docs/configuration.md` and every error come from it.

mod file;
mod flags;
#[cfg(test)]
mod fuzz;
mod kind;
mod secret;
mod settings;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bursar::meter::MeterSettings;
use bursar::{Bursar, Options, PostgresOptions, Rules};
use bursar_server::wire::problem::Problem;
use bursar_server::{JwtKey, JwtRules, Limits, Network, Settings};

pub(crate) use self::flags::Flags;
pub(crate) use self::kind::{Kind, has_password_parameter, split_password};
pub(crate) use self::secret::{Database, Secret};
pub(crate) use self::settings::{Setting, markdown, settings};

/// Where the database is unless it is said: in the working folder.
pub(crate) const DATABASE_DEFAULT: &str = "sqlite://bursar-data/bursar.db";
/// The file that is read unless another is named, where it is there.
pub(crate) const FILE_DEFAULT: &str = "bursar.toml";
/// The variable that names the file.
pub(crate) const FILE_VARIABLE: &str = "BURSAR_CONFIG";
/// Variables that say whom commands ask, which `place` reads.
const PLACES: [&str; 2] = ["BURSAR_SERVER", "BURSAR_TOKEN"];
/// Bytes of a configuration file, and of a file that has one value.
const BYTES_MAX: u64 = 1 << 20;

/// Everything that can be set. Its default is the default of each setting.
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
    pub(crate) rules: Kept,
    /// The quotas of callers, where they have some.
    pub(crate) meter: Option<MeterSettings>,
}

/// What tokens of users are checked with.
#[derive(Debug, Default)]
pub(crate) struct Jwt {
    pub(crate) secret: Option<Secret>,
    pub(crate) public_key: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) audience: Option<String>,
}

/// What is logged, and how it looks.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) json: bool,
    pub(crate) level: String,
}

/// What the engine takes on, and how often it looks after things.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) queue: usize,
    pub(crate) batch: usize,
    pub(crate) lanes: usize,
    pub(crate) patience: Duration,
    pub(crate) upkeep: Duration,
    pub(crate) rescue: Duration,
}

/// How PostgreSQL is used.
#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) connections: usize,
    pub(crate) connect: Duration,
    pub(crate) answer: Duration,
    pub(crate) listen: bool,
}

/// Rules of the whole installation.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) hold_ttl: Duration,
    pub(crate) key_kept: Duration,
    pub(crate) postings_kept: Duration,
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
                listen: true,
            },
            rules: Kept {
                hold_ttl: rules.hold_ttl.into(),
                key_kept: rules.key_kept.into(),
                postings_kept: rules.postings_kept.into(),
            },
            meter: None,
        }
    }
}

impl Config {
    /// How to open a database as it is configured.
    pub(crate) fn options(&self, url: &str) -> Options {
        let Engine { queue, batch, lanes, patience, upkeep, rescue } = self.engine;
        let postgres = PostgresOptions {
            connections: u32::try_from(self.postgres.connections).unwrap_or(u32::MAX),
            connect_within: self.postgres.connect,
            answer_within: self.postgres.answer,
            ..PostgresOptions::default()
        };
        let Kept { hold_ttl, key_kept, postings_kept } = self.rules;
        let rules = Rules { hold_ttl: hold_ttl.into(), key_kept: key_kept.into(), postings_kept: postings_kept.into() };
        Bursar::options(url)
            .rules(rules)
            .migrate(self.migrate)
            .queue(queue)
            .batch(batch)
            .lanes(lanes)
            .patience(patience)
            .upkeep(Some(upkeep))
            .rescue(rescue)
            .listen(self.postgres.listen)
            .postgres(postgres)
    }

    /// How to serve.
    pub(crate) fn server(&self) -> Result<Settings, Problem> {
        let wrong =
            |name: &str, error: bursar_server::JwtError| Problem::invalid(name.into(), format!("{name}: {error}"));
        let mut jwt_keys = Vec::new();
        if let Some(secret) = &self.jwt.secret {
            let key = JwtKey::secret(secret.reveal().as_bytes());
            jwt_keys.push(key.map_err(|error| wrong("jwt.secret", error))?);
        }
        if let Some(pem) = &self.jwt.public_key {
            jwt_keys.push(JwtKey::public(pem).map_err(|error| wrong("jwt.public_key", error))?);
        }
        Ok(Settings {
            operator_token: self.operator_token.as_ref().map(|token| token.reveal().to_owned()),
            jwt_keys,
            jwt_rules: JwtRules { issuer: self.jwt.issuer.clone(), audience: self.jwt.audience.clone() },
            limits: self.limits.clone(),
            trusted_proxies: self.trusted_proxies.clone(),
            clock: None,
            meter: self.meter.clone(),
        })
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// A line of the configuration file; the second is set where the line names a file that has the value.
    File(PathBuf, usize, Option<PathBuf>),
    /// A variable of the environment, in the same way.
    Environment(String, Option<PathBuf>),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (said, value) = match self {
            Origin::Default => return f.write_str("default"),
            Origin::Flag(flag) => return f.write_str(flag),
            Origin::File(path, line, value) => (format!("{}:{line}", path.display()), value),
            Origin::Environment(name, value) => (name.clone(), value),
        };
        match value {
            Some(value) => write!(f, "{said} ({})", value.display()),
            None => f.write_str(&said),
        }
    }
}

/// The configuration, and how it came to be.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Where each setting came from, in the order of the table.
    pub(crate) origins: Vec<Origin>,
    /// Where the meter is set.
    pub(crate) meter_from: Origin,
    /// Variables of the environment that look like settings and are none.
    pub(crate) unknown: Vec<String>,
}

/// A value that was given for a setting: its text, and where.
struct Given {
    setting: usize,
    text: String,
    origin: Origin,
}

/// Reads the file that is named, or the usual one where it is there; the environment; and flags.
pub(crate) fn load(file: Option<&Path>, flags: &Flags) -> Result<Loaded, Problem> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("BURSAR_"))?;
        Some((name, value.into_string().ok()))
    });
    load_from(file, &variables.collect::<Vec<_>>(), flags)
}

/// A variable of the environment; its value is `None` where that is not text.
type Variable = (String, Option<String>);

fn load_from(file: Option<&Path>, variables: &[Variable], flags: &Flags) -> Result<Loaded, Problem> {
    let mut loaded = Loaded {
        config: Config::default(),
        origins: vec![Origin::Default; settings().len()],
        meter_from: Origin::Default,
        unknown: Vec::new(),
    };
    let usual = Path::new(FILE_DEFAULT);
    if let Some(path) = file.or_else(|| usual.is_file().then_some(usual)) {
        let sets = file::read(path)?;
        sets.given.into_iter().try_for_each(|given| loaded.put(given))?;
        if let Some((meter, from)) = sets.meter {
            (loaded.config.meter, loaded.meter_from) = (Some(meter), from);
        }
    }
    let (given, unknown) = environment(variables)?;
    given.into_iter().try_for_each(|given| loaded.put(given))?;
    loaded.unknown = unknown;
    flags.given().try_for_each(|given| loaded.put(given))?;
    Ok(loaded)
}

impl Loaded {
    fn put(&mut self, given: Given) -> Result<(), Problem> {
        let Given { setting, text, origin } = given;
        let known = &settings()[setting];
        known.kind.put(&mut self.config, &text).map_err(|wrong| {
            let place = match &origin {
                Origin::File(path, line, _) => format!("{}:{line}: ", path.display()),
                Origin::Environment(name, _) => format!("{name}: "),
                Origin::Flag(flag) => format!("{flag}: "),
                Origin::Default => String::new(),
            };
            problem(known.name, &format!("{place}{} {wrong}", known.name))
        })?;
        self.origins[setting] = origin;
        Ok(())
    }
}

fn environment(variables: &[Variable]) -> Result<(Vec<Given>, Vec<String>), Problem> {
    let (mut given, mut unknown): (Vec<Given>, Vec<String>) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let by_name = |wanted: &str| settings().iter().position(|setting| setting.variable() == wanted);
        let (setting, of_file) = match (by_name(name), name.strip_suffix("_FILE").and_then(by_name)) {
            (Some(setting), _) => (setting, false),
            (None, Some(setting)) => (setting, true),
            (None, None) if name == FILE_VARIABLE || PLACES.contains(&name.trim_end_matches("_FILE")) => continue,
            (None, None) => {
                unknown.push(name.clone());
                continue;
            }
        };
        let key = settings()[setting].name;
        let value = value.as_ref().ok_or_else(|| problem(key, &format!("{name} is not UTF-8")))?;
        // A variable that is empty is one that nobody set.
        if value.is_empty() {
            continue;
        }
        if given.iter().any(|other| other.setting == setting) {
            let plain = settings()[setting].variable();
            return Err(problem(key, &format!("set either {plain} or {plain}_FILE, not both")));
        }
        let path = of_file.then(|| PathBuf::from(value));
        let text = match &path {
            Some(path) => value_in(path).map_err(|wrong| problem(key, &format!("{name}: {wrong}")))?,
            None => value.clone(),
        };
        given.push(Given { setting, text, origin: Origin::Environment(name.clone(), path) });
    }
    unknown.sort();
    Ok((given, unknown))
}

/// The value that a file has: all of it, but for blanks around it.
pub(crate) fn value_in(path: &Path) -> Result<String, String> {
    let text = text_of(path)?;
    match text.trim() {
        "" => Err(format!("{} is empty", path.display())),
        text => Ok(text.to_owned()),
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let wrong = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let file = std::fs::File::open(path).map_err(wrong)?;
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(wrong)?;
    match text.len() as u64 > BYTES_MAX {
        true => Err(format!("{} has more than {BYTES_MAX} bytes", path.display())),
        false => Ok(text),
    }
}

fn problem(field: &str, detail: &str) -> Problem {
    Problem::invalid(field.to_owned(), detail)
}

#[cfg(test)]
mod tests;
