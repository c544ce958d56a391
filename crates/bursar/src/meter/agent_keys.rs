//! The registered keys of agents: in the settings, and in a file that is read again.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use bursar_core::time::{Span, Time};
use bursar_signatures::{PublicKey, is_agent_name};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::meter::settings::{MeterError, MeterSettings};
use crate::meter::signed::Signed;

/// The most agents with registered keys.
const AGENTS_MAX: usize = 10_000;
/// The most keys of one agent.
const KEYS_MAX: usize = 16;
/// The most bytes of the file with keys.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The least time between two readings of the file.
const PAUSE: Span = Span::from_secs(1);

/// A key of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "KeyText")]
pub struct AgentKey {
    /// The public key.
    pub key: PublicKey,
    /// The last instant at which the key is valid; `None` if there is no such instant.
    pub not_after: Option<Time>,
}

impl From<PublicKey> for AgentKey {
    /// Returns a key that is valid for ever.
    fn from(key: PublicKey) -> AgentKey {
        AgentKey { key, not_after: None }
    }
}

/// A key as it is written in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyText {
    key: String,
    not_after: Option<String>,
}

impl TryFrom<KeyText> for AgentKey {
    type Error = String;

    fn try_from(text: KeyText) -> Result<AgentKey, String> {
        let key = text.key.parse().map_err(|bad| format!("key {bad}"))?;
        let not_after = text.not_after.map(|time| time.parse::<Time>().map_err(|bad| format!("not_after: {bad}")));
        Ok(AgentKey { key, not_after: not_after.transpose()? })
    }
}

/// The keys of agents by name.
pub(crate) type Registered = BTreeMap<String, Vec<AgentKey>>;

/// The file with keys: the table `[agents]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    agents: Registered,
}

/// Refuses names and numbers of keys that are not allowed.
pub(crate) fn check_agents(agents: &Registered) -> Result<(), String> {
    if agents.len() > AGENTS_MAX {
        return Err(format!("there must be at most {AGENTS_MAX} agents"));
    }
    for (name, keys) in agents {
        let is_key = name.parse::<PublicKey>().is_ok();
        if is_key || !is_agent_name(name) {
            return Err(format!(
                "the name {name:?} must be 1 to 249 printable ASCII characters without a space at either end, and no public key"
            ));
        }
        if !(1..=KEYS_MAX).contains(&keys.len()) {
            return Err(format!("{name:?} must have 1 to {KEYS_MAX} keys"));
        }
    }
    Ok(())
}

/// The registered keys, which follow changes of their file. A file that cannot be read changes nothing: the keys of the last one stay.
pub(crate) struct AgentKeys {
    fixed: Registered,
    file: Option<PathBuf>,
    /// The state of the file; locked by the request that reads it.
    reading: Mutex<Reading>,
    current: RwLock<Arc<Registered>>,
}

struct Reading {
    text: String,
    next: Time,
    failure: Option<String>,
}

impl AgentKeys {
    /// Reads the keys. Fails if they are wrong.
    pub(crate) fn open(settings: &MeterSettings) -> Result<AgentKeys, MeterError> {
        let fixed = settings.signatures.agents.clone();
        let file = settings.signatures.keys_path.clone().filter(|_| settings.signed != Signed::Off);
        let (mut text, mut current) = (String::new(), fixed.clone());
        if let Some(path) = &file {
            let wrong = |problem: String| MeterError::Setting { key: "signatures.keys_path", problem };
            text = read(path).map_err(wrong)?;
            current = parse(&text, &fixed).map_err(wrong)?;
        }
        let reading = Mutex::new(Reading { text, next: Time::MIN, failure: None });
        Ok(AgentKeys { fixed, file, reading, current: RwLock::new(Arc::new(current)) })
    }

    /// Returns the keys. Reads the file first if that is due and no other request is reading it.
    pub(crate) async fn current(&self, now: Time, runtime: &Handle) -> Arc<Registered> {
        if let Some(path) = &self.file
            && let Ok(mut reading) = self.reading.try_lock()
            && (now >= reading.next || reading.next.since(now) > PAUSE)
        {
            reading.next = now.after(PAUSE);
            let path = path.clone();
            let read = runtime.spawn_blocking(move || read(&path)).await;
            self.take(&mut reading, read.unwrap_or_else(|error| Err(error.to_string())));
        }
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the keys if the file has changed and is valid.
    fn take(&self, reading: &mut Reading, read: Result<String, String>) {
        let changed = match read {
            Ok(text) if text == reading.text => {
                reading.failure = None;
                return;
            }
            read => read.and_then(|text| Ok((parse(&text, &self.fixed)?, text))),
        };
        match changed {
            Ok((agents, text)) => {
                tracing::info!(agents = agents.len(), "the keys of agents have changed");
                (reading.text, reading.failure) = (text, None);
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(agents);
            }
            Err(problem) => {
                if reading.failure.as_ref() != Some(&problem) {
                    tracing::warn!(problem, "the keys of agents cannot be read; the last ones stay in use");
                }
                reading.failure = Some(problem);
            }
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("{}: has more than {FILE_BYTES_MAX} bytes", path.display())),
        false => Ok(text),
    }
}

/// Parses a file with keys, and adds those of the settings.
fn parse(text: &str, fixed: &Registered) -> Result<Registered, String> {
    let Document { agents } = toml::from_str(text).map_err(|error| error.to_string())?;
    if let Some(twice) = agents.keys().find(|name| fixed.contains_key(*name)) {
        return Err(format!("{twice:?} has keys in the settings and in the file"));
    }
    let all = agents.into_iter().chain(fixed.clone()).collect();
    check_agents(&all)?;
    Ok(all)
}
