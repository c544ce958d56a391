//! The settings of a meter, in Rust or in TOML.

use std::time::Duration;

use bursar_core::budget::{Budget, Limit};
use bursar_core::name::Scope;
use bursar_core::refusal::Invalid;
use bursar_core::request::{Op, Request};
use bursar_core::window::{CalendarUnit, Window};
use serde::Deserialize;

use crate::meter::cost::CostModel;
use crate::meter::pattern::PathPattern;
use crate::meter::signed::{SignatureSettings, Signed};
use crate::meter::slices::SliceSettings;

/// The settings of a meter.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeterSettings {
    /// Whether requests are metered.
    pub enabled: bool,
    /// The limits of each caller without limits of its own.
    pub quota: Vec<Limit>,
    /// The costs of requests.
    pub costs: CostModel,
    /// Paths that cost nothing.
    pub bypass: Vec<PathPattern>,
    /// What to do with requests that do not identify their caller.
    pub anonymous: Anonymous,
    /// What to do with requests while the quota cannot be checked.
    pub on_failure: OnFailure,
    /// The timeout of a quota check in milliseconds, from 1 to 600,000. After it, `on_failure` applies.
    pub patience_ms: u64,
    /// How long the estimate of a two-phase operation is held, in milliseconds, from 1,000 to 86,400,000. A handler that
    /// takes longer is still charged, but its estimate is no longer held.
    pub hold_ms: u64,
    /// The KiB that are held for a payload whose size is not known in advance.
    pub streamed_kib: u32,
    /// Whether requests of busy callers are admitted from memory, from units that this process holds in advance.
    pub slices: Option<SliceSettings>,
    /// Whether callers sign their requests.
    pub signed: Signed,
    /// What signatures are checked against.
    pub signatures: SignatureSettings,
}

/// What to do with requests that do not identify their caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anonymous {
    /// Serve them without charge.
    #[default]
    Bypass,
    /// Charge all of them to one shared quota.
    Shared,
    /// Refuse them with status 401.
    Refuse,
}

/// What to do with requests while the quota cannot be checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Serve them without charge, so that a failure of the meter does not stop the service.
    #[default]
    Open,
    /// Refuse them with status 503.
    Closed,
}

impl Default for MeterSettings {
    fn default() -> MeterSettings {
        MeterSettings {
            enabled: true,
            quota: vec![Limit::new(10_000, Window::utc(CalendarUnit::Hour))],
            costs: CostModel::default(),
            bypass: BYPASS.iter().map(|path| path.parse().expect("the default paths are valid")).collect(),
            anonymous: Anonymous::default(),
            on_failure: OnFailure::default(),
            patience_ms: 2_000,
            hold_ms: 300_000,
            streamed_kib: 64,
            slices: None,
            signed: Signed::default(),
            signatures: SignatureSettings::default(),
        }
    }
}

/// The usual paths of health checks, metrics and documentation.
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

/// Why settings are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeterError {
    /// The text is not TOML, has an unknown key, or a value of the wrong type.
    #[error("{0}")]
    Toml(String),
    /// The value of a setting is invalid.
    #[error("{key}: {problem}")]
    Setting {
        /// The key of the setting.
        key: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
}

impl MeterSettings {
    /// Reads settings from TOML. Missing keys have their defaults; an unknown key is an error that names it.
    pub fn from_toml(text: &str) -> Result<MeterSettings, MeterError> {
        let settings: MeterSettings = toml::from_str(text).map_err(|error| MeterError::Toml(error.to_string()))?;
        settings.check()?;
        Ok(settings)
    }

    /// Fails on the first invalid setting.
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
        self.slices.as_ref().map_or(Ok(()), SliceSettings::check)?;
        if self.signed != Signed::Off {
            self.signatures.check()?;
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

    /// Returns the budget of a caller with these limits.
    pub(crate) fn budget(&self, limits: Vec<Limit>) -> Budget {
        let mut budget = Budget { unit: "units".into(), ..Budget::new(limits) };
        budget.hold.ttl_max = Some(self.hold().into());
        budget.hold.ttl_min = budget.hold.ttl_min.min(self.hold().into());
        budget
    }
}

/// Refuses limits that are not valid in a budget.
fn check_quota(limits: &[Limit]) -> Result<(), Invalid> {
    let scope = Scope::new("agent:any")?;
    Request::from(Op::Define { scope, budget: Budget::new(limits.iter().cloned()) }).check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_can_contain_every_setting() {
        let settings = MeterSettings::from_toml(include_str!("settings_test.toml")).unwrap();
        assert_eq!(settings.quota.len(), 2);
        assert_eq!(settings.quota[1].window.to_string(), "month@Europe/Berlin");
        assert_eq!((settings.anonymous, settings.on_failure), (Anonymous::Shared, OnFailure::Closed));
        let (signed, signatures) = (settings.signed, &settings.signatures);
        assert_eq!((signed, signatures.window_ms, signatures.self_certified), (Signed::Required, 30_000, false));
        assert_eq!(signatures.authorities, ["api.example"]);
        assert_eq!(signatures.agents["alice"][0].not_after.unwrap().to_string(), "2027-02-01T00:00:00.000000Z");
        let [assert, vote, query] = &settings.costs.operations[..] else { panic!("{:?}", settings.costs) };
        assert_eq!((assert.base, assert.per_kib, assert.two_phase), (10, 1, true));
        assert_eq!((vote.base, vote.method.as_ref().unwrap().as_str()), (1, "POST"));
        assert_eq!((query.extras[0].each, format!("{:?}", query.extras[0].count)), (1, "Query(\"lens\")".into()));
        assert_eq!(settings.slices, Some(SliceSettings { life_ms: 5_000, share_percent: 20 }));
        assert_eq!(MeterSettings::from_toml("slices = {}").unwrap().slices, Some(SliceSettings::default()));
        assert_eq!(MeterSettings::from_toml("").unwrap().quota, MeterSettings::default().quota);
    }

    #[test]
    fn an_invalid_setting_is_reported_with_its_key() {
        for (text, expected) in [
            ("enbled = true", "unknown field `enbled`"),
            ("enabled = 1", "enabled = 1"),
            ("quota = []", "quota: limits must not be empty"),
            ("quota = [{ amount = -1, window = 'hour' }]", "quota: limits[0].amount must not be negative"),
            ("quota = [{ amount = 1, window = 'fortnight' }]", "\"fortnight\" is not one of lifetime"),
            (
                "quota = [{ amount = 1, window = 'day@Mars/Olympus' }]",
                "quota: limits[0].zone \"Mars/Olympus\" is not a known",
            ),
            (
                "quota = [{ amount = 1, window = 'day' }, { amount = 2, window = 'day' }]",
                "quota: limits names the window",
            ),
            ("anonymous = 'maybe'", "anonymous = 'maybe'"),
            ("patience_ms = 0", "patience_ms: must be from 1"),
            ("signed = 'maybe'", "signed = 'maybe'"),
            ("signed = 'optional'", "signatures.authorities: must name the hosts"),
            ("signed = 'required'\n[signatures]\nauthorities = ['a/b']", "signatures.authorities: \"a/b\" is not"),
            (
                "signed = 'required'\n[signatures]\nauthorities = ['*']\nwindow_ms = 1",
                "signatures.window_ms: must be from",
            ),
            ("signed = 'required'\n[signatures]\nauthorities = ['*']\nbody_ms = 0", "signatures.body_ms: must be from"),
            (
                "signed = 'required'\n[signatures]\nauthorities = ['*']\nbody_bytes_max = 2_000_000_000",
                "signatures.body_bytes_max: must",
            ),
            (
                "signed = 'required'\n[signatures]\nauthorities = ['*']\nagents = { '' = [] }",
                "signatures.agents: the name \"\" must",
            ),
            (
                "signed = 'required'\n[signatures]\nauthorities = ['*']\nagents = { a = [] }",
                "signatures.agents: \"a\" must have",
            ),
            ("[signatures]\nagents = { a = [{ key = '0a' }] }", "must be 32 bytes as 64 hexadecimal digits"),
            ("hold_ms = 5", "hold_ms: must be from 1000"),
            ("slices = { life_ms = 999 }", "slices.life_ms: must be from 1000"),
            ("slices = { share_percent = 51 }", "slices.share_percent: must be from 1 to 50"),
            ("bypass = ['livez']", "the path \"livez\" must begin with a slash"),
            ("[costs]\nbase = -1", "base = -1"),
            ("[[costs.operations]]\nname = 'a'\npath = '/a'", "missing field `base`"),
            ("[[costs.operations]]\nname = 'a'\npath = '/a'\nbase = 1\nmethod = 'post'", "method \"post\" is not an"),
            (
                "[[costs.operations]]\nname = 'a'\npath = '/a'\nbase = 1\nextras = [{ name = 'b', each = 1 }]",
                "the extra \"b\" must have",
            ),
            (
                "[[costs.operations]]\nname = 'a'\npath = '/a'\nbase = 1\n[[costs.operations]]\nname = 'a'\npath = '/b'\nbase = 1",
                "costs.operations: the name \"a\" is given twice",
            ),
        ] {
            let error = MeterSettings::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }
}
