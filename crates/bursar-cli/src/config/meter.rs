//! The quotas of callers: the table `[meter]` of the file, with the settings `meter.…` of the environment and of flags.

use std::time::Duration;

use bursar::meter::{MeterSettings, OnFailure, PathPattern};
use bursar::{Limit, Unit};

/// The quotas of callers. What has no setting, such as prices, comes from the table `[meter]` only.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// Whether the server charges its own callers.
    pub(crate) enabled: bool,
    pub(crate) quota: Vec<Limit>,
    pub(crate) refuse_on_failure: bool,
    pub(crate) patience: Duration,
    /// Paths that cost nothing; `None` for those of health checks, metrics and documentation.
    pub(crate) bypass: Option<Vec<PathPattern>>,
    table: MeterSettings,
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas::from(MeterSettings { enabled: false, ..MeterSettings::default() })
    }
}

impl From<MeterSettings> for Quotas {
    fn from(table: MeterSettings) -> Quotas {
        Quotas {
            enabled: table.enabled,
            quota: table.quota.clone(),
            refuse_on_failure: table.on_failure == OnFailure::Closed,
            patience: Duration::from_millis(table.patience_ms),
            bypass: Some(&table.bypass).filter(|paths| **paths != MeterSettings::default().bypass).cloned(),
            table,
        }
    }
}

impl Quotas {
    /// Returns the settings of the meter.
    pub(crate) fn settings(&self) -> MeterSettings {
        MeterSettings {
            enabled: self.enabled,
            quota: self.quota.clone(),
            on_failure: if self.refuse_on_failure { OnFailure::Closed } else { OnFailure::Open },
            patience_ms: u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX),
            bypass: self.bypass.clone().unwrap_or_else(|| MeterSettings::default().bypass),
            ..self.table.clone()
        }
    }
}

/// Reads limits in the notation of `--limit`, separated by commas. The error reads on from the name of the setting.
pub(super) fn read_quota(text: &str) -> Result<Vec<Limit>, String> {
    let mut quota = Vec::new();
    for item in items(text) {
        let limit = Limit::parse(item, &Unit::default()).map_err(|invalid| format!("has {item:?}: {invalid}"))?;
        quota.push(limit);
    }
    let settings = MeterSettings { quota, ..MeterSettings::default() };
    settings.check().map_err(|error| format!("is {text:?}: {error}"))?;
    Ok(settings.quota)
}

pub(super) fn show_quota(quota: &[Limit]) -> String {
    joined(quota.iter().map(|limit| format!("{}:{}", limit.amount, limit.window)))
}

/// Reads path patterns, separated by commas; `-` stands for none.
pub(super) fn read_paths(text: &str) -> Result<Vec<PathPattern>, String> {
    let paths = items(text).filter(|item| *item != NONE);
    paths.map(|path| path.parse().map_err(|bad| format!("is refused: {bad}"))).collect()
}

pub(super) fn show_paths(paths: &[PathPattern]) -> String {
    if paths.is_empty() { NONE.to_owned() } else { joined(paths.iter().map(PathPattern::to_string)) }
}

/// The text of an empty list, because an empty variable counts as unset.
const NONE: &str = "-";

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}
