//! Kinds of settings: where the value is stored, how it is parsed and shown, and what is allowed.

use std::net::SocketAddr;
use std::time::Duration;

use bursar::meter::PathPattern;
use bursar::{Limit, Span};
use bursar_server::{JwksSource, JwtKey, Network, OPERATOR_BYTES_MIN, OtlpSettings};
use tracing_subscriber::filter::Targets;

use super::meter::{read_paths, read_quota, show_paths, show_quota};
use super::tenant_kept::{self, TenantsKept};
use super::{Config, Database, Secret, otlp};

/// The log levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Returns the field of the configuration that stores a value.
type Field<T> = fn(&mut Config) -> &mut T;

/// The kind of a setting. Each knows the field that stores its value, so parsing and showing cannot disagree.
pub(crate) enum Kind {
    /// The URL of a database. Its password is never shown.
    Database(Field<Database>),
    /// The URL of a PostgreSQL server, or none. Its password is never shown.
    Server(Field<Option<Database>>),
    /// An address to listen on.
    Address(Field<SocketAddr>),
    /// Networks, separated by commas.
    Networks(Field<Vec<Network>>),
    /// Times that the rows of single tenants are kept, separated by commas; the bounds are those of holds, grants and costs.
    TenantsKept { bounds: [(Span, Span); 3], at: Field<TenantsKept> },
    /// The limits of a quota, separated by commas.
    Quota(Field<Vec<Limit>>),
    /// Patterns of paths, separated by commas.
    Paths(Field<Option<Vec<PathPattern>>>),
    /// Any text.
    Text(Field<Option<String>>),
    /// A public key in PEM.
    PublicKey(Field<Option<String>>),
    /// The address of a key set.
    KeySet(Field<Option<String>>),
    /// The address of a receiver of OpenTelemetry, or `none`.
    Receiver(Field<Option<String>>),
    /// Headers for a receiver of OpenTelemetry, which are secrets.
    Headers(Field<Option<Secret>>),
    /// A number from 0 to 1.
    Part(Field<f64>),
    /// The operator token.
    Token(Field<Option<Secret>>),
    /// The secret that signs user tokens.
    Key(Field<Option<Secret>>),
    /// A secret of another service.
    Secret(Field<Option<Secret>>),
    /// A whole number within bounds.
    Count { least: usize, most: usize, at: Field<usize> },
    /// A duration in milliseconds, within bounds.
    Millis { least: u64, most: u64, at: Field<Duration> },
    /// `true` or `false`.
    Bool(Field<bool>),
    /// One of two words; the second stands for `true`.
    Choice([&'static str; 2], Field<bool>),
    /// A filter for log events.
    LogFilter(Field<String>),
}

impl Kind {
    /// Parses and stores a value. An error reads on from the name of the setting, and never contains a secret.
    pub(crate) fn put(&self, config: &mut Config, text: &str) -> Result<(), String> {
        let invalid = || format!("is {text:?}; it must be {}", self.allowed());
        match self {
            Kind::Database(at) => {
                let has_scheme =
                    ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
                let database = has_scheme.then(|| Database::new(text));
                *at(config) = database.ok_or_else(|| format!("must be {}", self.allowed()))?;
            }
            Kind::Server(at) => {
                let has_scheme = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
                let server = has_scheme.then(|| Database::new(text));
                *at(config) = Some(server.ok_or_else(|| format!("must be {}", self.allowed()))?);
            }
            Kind::Address(at) => *at(config) = text.parse().map_err(|_| invalid())?,
            Kind::Networks(at) => {
                let networks = text.split(',').map(str::trim).filter(|network| !network.is_empty()).map(str::parse);
                *at(config) = networks.collect::<Result<_, _>>().map_err(|_| invalid())?;
            }
            Kind::TenantsKept { bounds, at } => *at(config) = tenant_kept::read(text, *bounds)?,
            Kind::Quota(at) => *at(config) = read_quota(text)?,
            Kind::Paths(at) => *at(config) = Some(read_paths(text)?),
            Kind::Text(at) => *at(config) = Some(text.to_owned()),
            Kind::Secret(_) if text.is_empty() => return Err(format!("must be {}", self.allowed())),
            Kind::Secret(at) => *at(config) = Some(Secret::new(text)),
            Kind::KeySet(at) => {
                JwksSource::at(text).map_err(|_| format!("must be {}", self.allowed()))?;
                *at(config) = Some(text.to_owned());
            }
            Kind::Receiver(at) => {
                let good = text == otlp::NONE || OtlpSettings::at(text).is_ok();
                *at(config) = Some(good.then(|| text.to_owned()).ok_or_else(|| format!("must be {}", self.allowed()))?);
            }
            Kind::Headers(at) => {
                let good = otlp::are_headers(text).then(|| Secret::new(text));
                *at(config) = Some(good.ok_or_else(|| format!("must be {}", self.allowed()))?);
            }
            Kind::Part(at) => {
                let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
                *at(config) = part.ok_or_else(invalid)?;
            }
            Kind::PublicKey(at) => {
                JwtKey::public(text).map_err(|_| format!("must be {}", self.allowed()))?;
                *at(config) = Some(text.to_owned());
            }
            Kind::Token(at) | Kind::Key(at) => {
                let good = match self {
                    Kind::Token(_) => text.len() >= OPERATOR_BYTES_MIN,
                    _ => JwtKey::secret(text.as_bytes()).is_ok(),
                };
                let secret = good.then(|| Secret::new(text));
                *at(config) = Some(secret.ok_or_else(|| format!("must be {}", self.allowed()))?);
            }
            Kind::Count { least, most, at } => {
                let count = text.parse().ok().filter(|count| (*least..=*most).contains(count));
                *at(config) = count.ok_or_else(invalid)?;
            }
            Kind::Millis { least, most, at } => {
                let millis = text.parse().ok().filter(|millis| (*least..=*most).contains(millis));
                *at(config) = Duration::from_millis(millis.ok_or_else(invalid)?);
            }
            Kind::Bool(at) => *at(config) = text.parse().map_err(|_| invalid())?,
            Kind::Choice([no, yes], at) => {
                *at(config) = match text {
                    _ if text == *yes => true,
                    _ if text == *no => false,
                    _ => return Err(invalid()),
                };
            }
            Kind::LogFilter(at) => {
                let level = |part: &str| part.rsplit_once('=').map_or(part, |(_, level)| level).trim().to_owned();
                // `Targets` takes an unknown word for a module name and would log all of that module.
                let levels = text.split(',').all(|part| LEVELS.contains(&level(part).as_str()));
                let good = levels && text.parse::<Targets>().is_ok();
                *at(config) = good.then(|| text.to_owned()).ok_or_else(invalid)?;
            }
        }
        Ok(())
    }

    /// Returns the value as it may be shown: `(secret)` for a secret, `None` if nothing is set.
    pub(crate) fn show(&self, config: &mut Config) -> Option<String> {
        Some(match self {
            Kind::Database(at) => at(config).to_string(),
            Kind::Server(at) => return at(config).as_ref().map(Database::to_string),
            Kind::Address(at) => at(config).to_string(),
            Kind::Networks(at) if at(config).is_empty() => return None,
            Kind::Networks(at) => at(config).iter().map(Network::to_string).collect::<Vec<_>>().join(", "),
            Kind::TenantsKept { at, .. } if at(config).is_empty() => return None,
            Kind::TenantsKept { at, .. } => tenant_kept::show(at(config)),
            Kind::Quota(at) => show_quota(at(config)),
            Kind::Paths(at) => return at(config).as_deref().map(show_paths),
            Kind::Text(at) | Kind::KeySet(at) | Kind::Receiver(at) => return at(config).clone(),
            Kind::Part(at) => at(config).to_string(),
            Kind::PublicKey(at) => return at(config).as_ref().map(|_| "(public key)".to_owned()),
            Kind::Token(at) | Kind::Key(at) | Kind::Secret(at) | Kind::Headers(at) => {
                return at(config).as_ref().map(|_| "(secret)".to_owned());
            }
            Kind::Count { at, .. } => at(config).to_string(),
            Kind::Millis { at, .. } => at(config).as_millis().to_string(),
            Kind::Bool(at) => at(config).to_string(),
            Kind::Choice([no, yes], at) => (if *at(config) { *yes } else { *no }).to_owned(),
            Kind::LogFilter(at) => at(config).clone(),
        })
    }

    /// Describes the allowed values, in words that follow "must be".
    pub(crate) fn allowed(&self) -> String {
        match self {
            Kind::Database(_) => "sqlite://PATH or postgres://…".to_owned(),
            Kind::Server(_) => "postgres://…".to_owned(),
            Kind::Address(_) => "an address such as 127.0.0.1:7440; port 0 chooses a free port".to_owned(),
            Kind::Networks(_) => "addresses or networks, separated by commas: 10.0.0.7, 192.168.0.0/16".to_owned(),
            Kind::TenantsKept { .. } => {
                "durations by tenant and kind (holds, grants, costs), separated by commas: acme.holds=365d, acme.costs=30d"
                    .to_owned()
            }
            Kind::Quota(_) => "limits, separated by commas: 10000:hour, 1000000:month@Europe/Berlin".to_owned(),
            Kind::Paths(_) => "paths, separated by commas: /livez, /docs/{*rest}; `-` for none".to_owned(),
            Kind::Text(_) => "any text".to_owned(),
            Kind::KeySet(_) => "https://…, or http://… on a loopback address".to_owned(),
            Kind::Receiver(_) => "http://… or https://… without a password and without a query; `none` for no export".to_owned(),
            Kind::Headers(_) => "at most 32 headers, separated by commas: NAME=VALUE, NAME=VALUE".to_owned(),
            Kind::Part(_) => "a number from 0 to 1".to_owned(),
            Kind::PublicKey(_) => "a PEM public key: RSA with at least 2048 bits, or Ed25519".to_owned(),
            Kind::Token(_) => format!("at least {OPERATOR_BYTES_MIN} characters"),
            Kind::Key(_) => "at least 32 bytes".to_owned(),
            Kind::Secret(_) => "any text but the empty one".to_owned(),
            Kind::Count { least, most, .. } => format!("a whole number from {least} to {most}"),
            Kind::Millis { least, most, .. } => format!("milliseconds from {least} to {most}"),
            Kind::Bool(_) => "true or false".to_owned(),
            Kind::Choice([no, yes], _) => format!("{no} or {yes}"),
            Kind::LogFilter(_) => {
                "a level (error, warn, info, debug, trace, off), optionally per module: info,bursar_server=debug"
                    .to_owned()
            }
        }
    }

    /// Returns the placeholder for the value in the help.
    pub(crate) fn value_name(&self) -> String {
        match self {
            Kind::Database(_) | Kind::Server(_) | Kind::KeySet(_) | Kind::Receiver(_) => "URL",
            Kind::Address(_) => "ADDR",
            Kind::Networks(_) => "NETWORKS",
            Kind::TenantsKept { .. } => "TENANT.KIND=DURATION,…",
            Kind::Quota(_) => "AMOUNT:WINDOW,…",
            Kind::Paths(_) => "PATHS",
            Kind::Text(_) => "TEXT",
            Kind::PublicKey(_) => "PEM",
            Kind::Token(_) | Kind::Key(_) | Kind::Secret(_) | Kind::Headers(_) => "SECRET",
            Kind::Count { .. } | Kind::Part(_) => "N",
            Kind::Millis { .. } => "MS",
            Kind::Bool(_) => "true|false",
            Kind::Choice([no, yes], _) => return format!("{no}|{yes}"),
            Kind::LogFilter(_) => "LEVEL",
        }
        .to_owned()
    }

    /// Whether the value must not be shown.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self, Kind::Token(_) | Kind::Key(_) | Kind::Secret(_) | Kind::Headers(_))
    }

    /// Returns the TOML type of the value.
    pub(crate) fn in_toml(&self) -> Toml {
        match self {
            Kind::Count { .. } | Kind::Millis { .. } => Toml::Integer,
            Kind::Bool(_) => Toml::Boolean,
            Kind::Part(_) => Toml::Number,
            _ => Toml::String,
        }
    }
}

/// A TOML type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toml {
    String,
    Integer,
    Number,
    Boolean,
}

/// Splits a URL into the part before its password, the password, and the rest.
pub(crate) fn split_password(url: &str) -> Option<(&str, &str, &str)> {
    let start = url.find("://")? + 3;
    let end = url[start..].find(['/', '?']).map_or(url.len(), |place| start + place);
    let at = start + url[start..end].rfind('@')?;
    let colon = start + url[start..at].find(':')?;
    Some((&url[..colon], &url[colon + 1..at], &url[at..]))
}

/// Whether a URL contains a password, in front of the host or as a parameter.
pub(crate) fn has_password(url: &str) -> bool {
    split_password(url).is_some() || has_password_parameter(url)
}

/// Whether a parameter of a URL is a password.
pub(crate) fn has_password_parameter(url: &str) -> bool {
    url.split_once('?').is_some_and(|(_, query)| query.contains("password="))
}

/// Returns a URL without its password.
pub(crate) fn without_password(url: &str) -> String {
    let shown = match split_password(url) {
        Some((before, _, after)) => format!("{before}:…{after}"),
        None => url.to_owned(),
    };
    // A driver may accept several password parameters, so all parameters are hidden.
    match shown.split_once('?') {
        Some((plain, query)) if query.contains("password") => format!("{plain}?…"),
        _ => shown,
    }
}
