//! Kinds of settings: where the value is kept, how it is read and shown, what is allowed.

use std::net::SocketAddr;
use std::time::Duration;

use bursar_server::{JwtKey, Network, OPERATOR_BYTES_MIN};
use tracing_subscriber::filter::Targets;

use super::{Config, Database, Secret};

/// How much is logged.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The place of a value in the configuration.
type At<T> = fn(&mut Config) -> &mut T;

/// What a setting is. Each kind knows the place of its value, so that reading and showing cannot disagree.
pub(crate) enum Kind {
    /// An address of a database. The password in it is never shown.
    Database(At<Database>),
    /// An address to listen on.
    Address(At<SocketAddr>),
    /// Networks, with commas between.
    Networks(At<Vec<Network>>),
    /// Any text.
    Text(At<Option<String>>),
    /// A public key in PEM.
    PublicKey(At<Option<String>>),
    /// The operator's token.
    Token(At<Option<Secret>>),
    /// A secret that tokens of users are signed with.
    Key(At<Option<Secret>>),
    /// A whole number within bounds.
    Count { least: usize, most: usize, at: At<usize> },
    /// A time in milliseconds, within bounds.
    Millis { least: u64, most: u64, at: At<Duration> },
    /// Yes or no.
    Switch(At<bool>),
    /// One of two words; the second is `true`.
    Either([&'static str; 2], At<bool>),
    /// Which events are logged.
    Filter(At<String>),
}

impl Kind {
    /// Sets the value from a text, or says what is wrong: words that follow the name of the setting. A secret is not among them.
    pub(crate) fn put(&self, config: &mut Config, text: &str) -> Result<(), String> {
        let wrong = || format!("is {text:?}; it must be {}", self.allowed());
        match self {
            Kind::Database(at) => {
                let known = ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
                let database = known.then(|| Database::new(text));
                *at(config) = database.ok_or_else(|| format!("must be {}", self.allowed()))?;
            }
            Kind::Address(at) => *at(config) = text.parse().map_err(|_| wrong())?,
            Kind::Networks(at) => {
                let networks = text.split(',').map(str::trim).filter(|network| !network.is_empty()).map(str::parse);
                *at(config) = networks.collect::<Result<_, _>>().map_err(|_| wrong())?;
            }
            Kind::Text(at) => *at(config) = Some(text.to_owned()),
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
                *at(config) = count.ok_or_else(wrong)?;
            }
            Kind::Millis { least, most, at } => {
                let millis = text.parse().ok().filter(|millis| (*least..=*most).contains(millis));
                *at(config) = Duration::from_millis(millis.ok_or_else(wrong)?);
            }
            Kind::Switch(at) => *at(config) = text.parse().map_err(|_| wrong())?,
            Kind::Either([no, yes], at) => {
                *at(config) = match text {
                    _ if text == *yes => true,
                    _ if text == *no => false,
                    _ => return Err(wrong()),
                };
            }
            Kind::Filter(at) => {
                let level = |part: &str| part.rsplit_once('=').map_or(part, |(_, level)| level).trim().to_owned();
                // A word that is no level would be taken for a part of the program, all of which is then logged.
                let levels = text.split(',').all(|part| LEVELS.contains(&level(part).as_str()));
                let good = levels && text.parse::<Targets>().is_ok();
                *at(config) = good.then(|| text.to_owned()).ok_or_else(wrong)?;
            }
        }
        Ok(())
    }

    /// The value as it may be shown; `None` where there is none. Of a secret it is told only that it is set.
    pub(crate) fn show(&self, config: &mut Config) -> Option<String> {
        Some(match self {
            Kind::Database(at) => at(config).to_string(),
            Kind::Address(at) => at(config).to_string(),
            Kind::Networks(at) if at(config).is_empty() => return None,
            Kind::Networks(at) => at(config).iter().map(Network::to_string).collect::<Vec<_>>().join(", "),
            Kind::Text(at) => return at(config).clone(),
            Kind::PublicKey(at) => return at(config).as_ref().map(|_| "(a public key)".to_owned()),
            Kind::Token(at) | Kind::Key(at) => return at(config).as_ref().map(|_| "(secret)".to_owned()),
            Kind::Count { at, .. } => at(config).to_string(),
            Kind::Millis { at, .. } => at(config).as_millis().to_string(),
            Kind::Switch(at) => at(config).to_string(),
            Kind::Either([no, yes], at) => (if *at(config) { *yes } else { *no }).to_owned(),
            Kind::Filter(at) => at(config).clone(),
        })
    }

    /// What may be set, in words that follow "must be".
    pub(crate) fn allowed(&self) -> String {
        match self {
            Kind::Database(_) => "sqlite://PATH or postgres://…".to_owned(),
            Kind::Address(_) => "an address such as 127.0.0.1:7440; port 0 takes a free one".to_owned(),
            Kind::Networks(_) => "addresses or networks with commas between: 10.0.0.7, 192.168.0.0/16".to_owned(),
            Kind::Text(_) => "any text".to_owned(),
            Kind::PublicKey(_) => "a PEM text: RSA of 2048 bits or more, or Ed25519".to_owned(),
            Kind::Token(_) => format!("{OPERATOR_BYTES_MIN} characters or more"),
            Kind::Key(_) => "32 bytes or more".to_owned(),
            Kind::Count { least, most, .. } => format!("a whole number from {least} to {most}"),
            Kind::Millis { least, most, .. } => format!("milliseconds from {least} to {most}"),
            Kind::Switch(_) => "true or false".to_owned(),
            Kind::Either([no, yes], _) => format!("{no} or {yes}"),
            Kind::Filter(_) => {
                "a level (error, warn, info, debug, trace, off), for parts of the program too: info,bursar_server=debug"
                    .to_owned()
            }
        }
    }

    /// Whether it must not be shown.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self, Kind::Token(_) | Kind::Key(_))
    }

    /// What it is in TOML.
    pub(crate) fn in_toml(&self) -> Toml {
        match self {
            Kind::Count { .. } | Kind::Millis { .. } => Toml::Integer,
            Kind::Switch(_) => Toml::Boolean,
            _ => Toml::String,
        }
    }
}

/// What a value is in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toml {
    String,
    Integer,
    Boolean,
}

/// The password of an address, with what stands before and after it.
pub(crate) fn split_password(url: &str) -> Option<(&str, &str, &str)> {
    let start = url.find("://")? + 3;
    let end = url[start..].find(['/', '?']).map_or(url.len(), |place| start + place);
    let at = start + url[start..end].rfind('@')?;
    let colon = start + url[start..at].find(':')?;
    Some((&url[..colon], &url[colon + 1..at], &url[at..]))
}

/// Whether an address has a password in it, as part of the user or as a parameter.
pub(crate) fn has_password(url: &str) -> bool {
    split_password(url).is_some() || has_password_parameter(url)
}

/// Whether a parameter of an address is a password.
pub(crate) fn has_password_parameter(url: &str) -> bool {
    url.split_once('?').is_some_and(|(_, query)| query.contains("password="))
}

/// The address as it may be shown.
pub(crate) fn without_password(url: &str) -> String {
    let shown = match split_password(url) {
        Some((before, _, after)) => format!("{before}:…{after}"),
        None => url.to_owned(),
    };
    // Parameters may hold a password too, and whatever the driver of the day takes.
    match shown.split_once('?') {
        Some((plain, query)) if query.contains("password") => format!("{plain}?…"),
        _ => shown,
    }
}
