//! What can be set of a meter, in Rust or in TOML.

use std::time::Duration;

use bursar_core::budget::{Budget, Limit};
use bursar_core::name::Scope;
use bursar_core::refusal::Invalid;
use bursar_core::request::{Op, Request};
use bursar_core::window::{CalendarUnit, Window};
use serde::Deserialize;

use crate::meter::cost::CostModel;
use crate::meter::pattern::PathPattern;

/// What can be set of a meter.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeterSettings {
    /// Whether anything is metered.
    pub enabled: bool,
    /// What a caller may spend for whom nothing else is set.
    pub quota: Vec<Limit>,
    /// What requests cost.
    pub costs: CostModel,
    /// Paths that are served to anybody, and cost nothing.
    pub bypass: Vec<PathPattern>,
    /// What becomes of requests that do not say whose they are.
    pub anonymous: Anonymous,
    /// What becomes of requests while the quota cannot be asked.
    pub on_failure: OnFailure,
    /// How long to wait for an answer about the quota; then it cannot be asked.
    pub patience_ms: u64,
    /// How long the handler of an operation in two phases may take. One that takes longer is charged all the same, but what it will
    /// cost is not set aside any more.
    pub hold_ms: u64,
    /// KiB that are set aside for a payload whose size nobody tells.
    pub streamed_kib: u32,
}

/// What becomes of requests that do not say whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anonymous {
    /// They are served, and cost nothing.
    #[default]
    Bypass,
    /// All of them share one quota.
    Shared,
    /// They are refused, with status 401.
    Refuse,
}

/// What becomes of requests while the quota cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// They are served, and cost nothing: to be there is a meter's first duty.
    #[default]
    Open,
    /// They are refused, with status 503.
    Closed,
}

impl Default for MeterSettings {
    fn default() -> MeterSettings {
        MeterSettings {
            enabled: true,
            quota: vec![Limit::new(10_000, Window::utc(CalendarUnit::Hour))],
            costs: CostModel::default(),
            bypass: BYPASS.iter().map(|path| path.parse().expect("these are good paths")).collect(),
            anonymous: Anonymous::default(),
            on_failure: OnFailure::default(),
            patience_ms: 2_000,
            hold_ms: 300_000,
            streamed_kib: 64,
        }
    }
}

/// Where health and documents are, as a rule.
const BYPASS: [&str; 9] = [
    "/livez",
    "/readyz",
    "/healthz",
    "/health",
    "/metrics",
    "/docs",
    "/docs/{*rest}",
    "/openapi.json",
    "/v1/openapi.json",
];

/// Why settings make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeterError {
    /// The text is not TOML, or says something that is not known.
    #[error("{0}")]
    Toml(String),
    /// What is said does not go.
    #[error("{key}: {problem}")]
    Setting {
        /// What is set.
        key: &'static str,
        /// What does not go.
        problem: String,
    },
}

impl MeterSettings {
    /// Reads settings from TOML. What is not said is as by default; what is not known is an error that names it.
    pub fn from_toml(text: &str) -> Result<MeterSettings, MeterError> {
        let settings: MeterSettings = toml::from_str(text).map_err(|error| MeterError::Toml(error.to_string()))?;
        settings.check()?;
        Ok(settings)
    }

    /// Refuses what does not go.
    pub fn check(&self) -> Result<(), MeterError> {
        let wrong = |key, problem: &str| Err(MeterError::Setting { key, problem: problem.to_owned() });
        check_quota(&self.quota)
            .map_err(|invalid| MeterError::Setting { key: "quota", problem: invalid.to_string() })?;
        if !(1..=600_000).contains(&self.patience_ms) {
            return wrong("patience_ms", "must be from 1 to 600000");
        }
        if !(1_000..=86_400_000).contains(&self.hold_ms) {
            return wrong("hold_ms", "must be from 1000 to 86400000");
        }
        let mut names: Vec<&str> = self.costs.operations.iter().map(|operation| operation.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|two| two[0] == two[1]) {
            Some(twice) => wrong("costs.operations", &format!("the name {:?} is given twice", twice[0])),
            None => Ok(()),
        }
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    pub(crate) fn hold(&self) -> Duration {
        Duration::from_millis(self.hold_ms)
    }

    /// The budget of a caller with these limits.
    pub(crate) fn budget(&self, limits: Vec<Limit>) -> Budget {
        let mut budget = Budget { unit: "units".into(), ..Budget::new(limits) };
        budget.hold.ttl_max = self.hold().into();
        budget.hold.ttl_min = budget.hold.ttl_min.min(budget.hold.ttl_max);
        budget
    }
}

/// Refuses limits that no budget could have.
fn check_quota(limits: &[Limit]) -> Result<(), Invalid> {
    let scope = Scope::new("agent:any")?;
    Request::from(Op::Define { scope, budget: Budget::new(limits.iter().cloned()) }).check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_can_be_said_in_toml() {
        let settings = MeterSettings::from_toml(include_str!("settings_test.toml")).unwrap();
        assert_eq!(settings.quota.len(), 2);
        assert_eq!(settings.quota[1].window.to_string(), "month@Europe/Berlin");
        assert_eq!((settings.anonymous, settings.on_failure), (Anonymous::Shared, OnFailure::Closed));
        let [assert, vote, query] = &settings.costs.operations[..] else { panic!("{:?}", settings.costs) };
        assert_eq!((assert.base, assert.per_kib, assert.two_phase), (10, 1, true));
        assert_eq!((vote.base, vote.method.as_ref().unwrap().as_str()), (1, "POST"));
        assert_eq!((query.extras[0].each, format!("{:?}", query.extras[0].count)), (1, "Query(\"lens\")".into()));
        assert_eq!(MeterSettings::from_toml("").unwrap().quota, MeterSettings::default().quota);
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_key() {
        for (text, told) in [
            ("enbled = true", "unknown field `enbled`"),
            ("enabled = 1", "enabled = 1"),
            ("quota = []", "quota: limits must not be empty"),
            ("quota = [{ amount = -1, window = 'hour' }]", "quota: limits.amount must not be negative"),
            ("quota = [{ amount = 1, window = 'fortnight' }]", "\"fortnight\" is not one of lifetime"),
            ("quota = [{ amount = 1, window = 'day@Mars/Olympus' }]", "quota: zone \"Mars/Olympus\" is not a known"),
            (
                "quota = [{ amount = 1, window = 'day' }, { amount = 2, window = 'day' }]",
                "quota: limits names the window",
            ),
            ("anonymous = 'maybe'", "anonymous = 'maybe'"),
            ("patience_ms = 0", "patience_ms: must be from 1"),
            ("hold_ms = 5", "hold_ms: must be from 1000"),
            ("bypass = ['livez']", "the path \"livez\" must begin with a slash"),
            ("[costs]\nbase = -1", "base = -1"),
            ("[[costs.operations]]\nname = 'a'\npath = '/a'", "missing field `base`"),
            ("[[costs.operations]]\nname = 'a'\npath = '/a'\nbase = 1\nmethod = 'post'", "method \"post\" is not one"),
            (
                "[[costs.operations]]\nname = 'a'\npath = '/a'\nbase = 1\nextras = [{ name = 'b', each = 1 }]",
                "the extra \"b\" must say",
            ),
            (
                "[[costs.operations]]\nname = 'a'\npath = '/a'\nbase = 1\n[[costs.operations]]\nname = 'a'\npath = '/b'\nbase = 1",
                "costs.operations: the name \"a\" is given twice",
            ),
        ] {
            let error = MeterSettings::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}\n{error}");
        }
    }
}
