//! Windows and limits: the name of a window, and beside it the fields that this window needs.

use bursar_core::budget::Limit;
use bursar_core::notation::Unit;
use bursar_core::refusal::Invalid;
use bursar_core::window::{CalendarUnit, Weekday, Window, Zone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use crate::millis;

/// A limit: a number of units per window.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitBody {
    /// The units that may be posted and held in the window; for a bucket, its capacity.
    pub amount: i64,
    /// `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`, with the fields that it needs; or all of it as
    /// text: `month@Europe/Berlin`, `week@UTC:sunday`, `rolling:1h`, `bucket:10000/h`.
    pub window: String,
    /// The time zone of a calendar window, such as `Europe/Berlin`; default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The first day of a `week`; default: Monday.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub week_start: Option<Weekday>,
    /// The units that a `bucket` regains in `length_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill: Option<i64>,
    /// The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_ms: Option<i64>,
}

/// The window of a limit or a balance, flattened into the object that has it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct WindowFields {
    /// `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`.
    pub window: Cow<'static, str>,
    /// The time zone of a calendar window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The first day of a `week`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub week_start: Option<Weekday>,
    /// The units that a `bucket` regains in `length_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refill: Option<i64>,
    /// The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_ms: Option<i64>,
}

impl LimitBody {
    /// Formats the window as text, such as `month@Europe/Berlin`.
    pub fn shown(&self) -> String {
        self.shown_in(&Unit::default())
    }

    /// Formats the window as text, with the amounts of a bucket in a unit that has decimals.
    pub fn shown_in(&self, unit: &Unit) -> String {
        Limit::try_from(self.clone()).map_or_else(|_| self.window.clone(), |limit| limit.window.format_in(unit))
    }
}

impl WindowFields {
    /// Formats the window as text; `amount` is the capacity of a bucket.
    pub fn shown(&self, amount: Option<i64>) -> String {
        self.shown_in(amount, &Unit::default())
    }

    /// Does the same, with the amounts of a bucket in a unit that has decimals.
    pub fn shown_in(&self, amount: Option<i64>, unit: &Unit) -> String {
        let WindowFields { window, zone, week_start, refill, length_ms } = self.clone();
        let limit = LimitBody {
            amount: amount.unwrap_or_default(),
            window: window.to_string(),
            zone,
            week_start,
            refill,
            length_ms,
        };
        limit.shown_in(unit)
    }
}

const UNITS: [(&str, CalendarUnit); 5] = [
    ("hour", CalendarUnit::Hour),
    ("day", CalendarUnit::Day),
    ("week", CalendarUnit::Week),
    ("month", CalendarUnit::Month),
    ("year", CalendarUnit::Year),
];

impl From<&Window> for WindowFields {
    fn from(window: &Window) -> WindowFields {
        match window {
            Window::Lifetime => WindowFields { window: "lifetime".into(), ..WindowFields::default() },
            Window::Rolling { length } => {
                WindowFields { window: "rolling".into(), length_ms: Some(length.millis()), ..WindowFields::default() }
            }
            Window::Bucket { refill, length, .. } => WindowFields {
                window: "bucket".into(),
                refill: Some(*refill),
                length_ms: Some(length.millis()),
                ..WindowFields::default()
            },
            Window::Calendar { unit, zone, week_start } => WindowFields {
                window: UNITS.iter().find(|known| known.1 == *unit).map_or("lifetime", |known| known.0).into(),
                zone: Some(zone.as_str().to_owned()),
                week_start: (*unit == CalendarUnit::Week).then_some(*week_start),
                ..WindowFields::default()
            },
        }
    }
}

impl From<&Limit> for LimitBody {
    fn from(limit: &Limit) -> LimitBody {
        let WindowFields { window, zone, week_start, refill, length_ms } = WindowFields::from(&limit.window);
        LimitBody { amount: limit.amount, window: window.into_owned(), zone, week_start, refill, length_ms }
    }
}

impl TryFrom<LimitBody> for Limit {
    type Error = Invalid;

    fn try_from(body: LimitBody) -> Result<Limit, Invalid> {
        let LimitBody { amount, window, zone, week_start, refill, length_ms } = body;
        if window.contains(['@', ':']) {
            let given = [zone.is_some(), week_start.is_some(), refill.is_some(), length_ms.is_some()];
            let fields = ["zone", "week_start", "refill", "length_ms"];
            if let Some((field, _)) = fields.into_iter().zip(given).find(|(_, given)| *given) {
                return Err(Invalid::new(
                    field,
                    format!("is not allowed with the window {window:?}, which is complete"),
                ));
            }
            return Ok(Limit::new(amount, Window::of_limit(amount, &window)?));
        }
        let unit = UNITS.iter().find(|known| known.0 == window).map(|known| known.1);
        // A field that the window does not use is probably a mistake of the caller.
        let stray = [
            ("zone", zone.is_some() && unit.is_none()),
            ("week_start", week_start.is_some() && unit != Some(CalendarUnit::Week)),
            ("refill", refill.is_some() && window != "bucket"),
            ("length_ms", length_ms.is_some() && window != "bucket" && window != "rolling"),
        ];
        if let Some((field, _)) = stray.into_iter().find(|(_, stray)| *stray) {
            return Err(Invalid::new(field, format!("is not allowed with the window {window:?}")));
        }
        let length = |given: Option<i64>| {
            let given =
                given.ok_or_else(|| Invalid::new("length_ms", format!("is required with the window {window:?}")));
            millis("length_ms", given?)
        };
        let window = match (window.as_str(), unit) {
            ("lifetime", _) => Window::Lifetime,
            ("rolling", _) => Window::rolling(length(length_ms)?)?,
            ("bucket", _) => {
                let refill = refill.ok_or_else(|| Invalid::new("refill", "is required with the window \"bucket\""))?;
                Window::bucket(amount, refill, length(length_ms)?)?
            }
            (_, Some(unit)) => {
                let zone = zone.map_or(Ok(Zone::utc()), |zone| Zone::new(&zone))?;
                Window::Calendar { unit, zone, week_start: week_start.unwrap_or_default() }
            }
            _ => {
                // The notation says which windows there are.
                return window.parse().map(|window| Limit::new(amount, window));
            }
        };
        Ok(Limit::new(amount, window))
    }
}

/// Converts a list of limits.
pub fn limits(bodies: Vec<LimitBody>) -> Result<Vec<Limit>, Invalid> {
    let limit =
        |(index, body): (usize, LimitBody)| Limit::try_from(body).map_err(|invalid| invalid.of_entry("limits", index));
    bodies.into_iter().enumerate().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_same_after_a_round_trip() {
        for (json, shown) in [
            (r#"{"amount":1,"window":"lifetime"}"#, "lifetime"),
            (r#"{"amount":1,"window":"rolling","length_ms":3600000}"#, "rolling:1h"),
            (r#"{"amount":9,"window":"bucket","refill":2,"length_ms":1000}"#, "bucket:9:2/s"),
            (r#"{"amount":1,"window":"month","zone":"Europe/Berlin"}"#, "month@Europe/Berlin"),
            (r#"{"amount":1,"window":"week","zone":"UTC","week_start":"sunday"}"#, "week@UTC:sunday"),
        ] {
            let limit = Limit::try_from(serde_json::from_str::<LimitBody>(json).unwrap()).unwrap();
            assert_eq!(limit.window.to_string(), shown);
            assert_eq!(serde_json::to_string(&LimitBody::from(&limit)).unwrap(), json);
        }
    }

    #[test]
    fn a_window_may_be_given_as_text() {
        for (json, shown) in [
            (r#"{"amount":1,"window":"month@Europe/Berlin"}"#, "month@Europe/Berlin"),
            (r#"{"amount":1,"window":"week@UTC:sunday"}"#, "week@UTC:sunday"),
            (r#"{"amount":1,"window":"rolling:1h30m"}"#, "rolling:1h30m"),
            (r#"{"amount":9,"window":"bucket:2/s"}"#, "bucket:9:2/s"),
            (r#"{"amount":9,"window":"bucket:9:2/1m"}"#, "bucket:9:2/m"),
            (r#"{"amount":1,"window":"rolling","length":"1h"}"#, "rolling:1h"),
            (r#"{"amount":9,"window":"bucket","refill":2,"length":"1s"}"#, "bucket:9:2/s"),
        ] {
            let limit = Limit::try_from(crate::read::<LimitBody>(json).unwrap()).unwrap();
            assert_eq!(limit.window.to_string(), shown, "{json}");
        }
    }

    #[test]
    fn a_wrong_limit_is_refused_with_its_field() {
        for (json, problem) in [
            (r#"{"amount":1,"window":"fortnight"}"#, "window \"fortnight\" is not one of"),
            (r#"{"amount":1,"window":"rolling"}"#, "length_ms is required"),
            (r#"{"amount":1,"window":"rolling","length_ms":-1}"#, "length_ms must not be negative"),
            (r#"{"amount":1,"window":"bucket","length_ms":1}"#, "refill is required"),
            (r#"{"amount":1,"window":"day","zone":"Mars/Olympus"}"#, "zone \"Mars/Olympus\" is not a known"),
            (r#"{"amount":1,"window":"day","week_start":"sunday"}"#, "week_start is not allowed"),
            (r#"{"amount":1,"window":"lifetime","zone":"UTC"}"#, "zone is not allowed"),
            (r#"{"amount":1,"window":"month@UTC","zone":"UTC"}"#, "zone is not allowed with the window"),
            (r#"{"amount":1,"window":"rolling:1h","length_ms":5}"#, "length_ms is not allowed with the window"),
            (r#"{"amount":1,"window":"rolling:soon"}"#, "window \"rolling:soon\" is refused: duration \"soon\" is not"),
            (r#"{"amount":1,"window":"day@Mars/Olympus"}"#, "zone \"Mars/Olympus\" is not a known"),
            (r#"{"amount":1,"window":"bucket:2:1/s"}"#, "window \"bucket:2:1/s\" has another capacity"),
        ] {
            let body: LimitBody = serde_json::from_str(json).unwrap();
            let error = Limit::try_from(body).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{json}: {error}");
        }
    }
}
