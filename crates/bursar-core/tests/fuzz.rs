//! Parsers never panic, whatever the input, and what they accept is written so that it parses back to the same value.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use bursar_core::budget::Limit;
use bursar_core::credential::{CredentialClass, CredentialToken, Pattern};
use bursar_core::cron::Cron;
use bursar_core::grant::Token;
use bursar_core::id::{BatchId, CommandId, GrantId, HoldId, JobId, KeyId, WorkerId};
use bursar_core::name::{
    FlowKey, IdempotencyKey, JobKind, Purpose, Queue, ScheduleName, Scope, Subject, Tag, Tenant, WorkerName, given,
};
use bursar_core::notation::{Amount, Unit};
use bursar_core::payload::Payload;
use bursar_core::refusal::Invalid;
use bursar_core::time::{Span, Time};
use bursar_core::trace::TraceParent;
use bursar_core::window::{Window, Zone};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Checks that a caller's name parses the same from text and from JSON, and parses back.
fn same_name<T>(text: &str)
where
    T: FromStr + Display + Debug + PartialEq + Serialize + DeserializeOwned,
{
    let from_json = given(|| serde_json::from_str::<T>(&serde_json::to_string(text).unwrap())).ok();
    let Ok(read) = text.parse::<T>() else {
        assert!(from_json.is_none(), "{text:?} is refused as text but accepted as JSON");
        return;
    };
    assert_eq!(read.to_string().parse::<T>().ok().as_ref(), Some(&read), "{text:?} parses back");
    assert_eq!(from_json.as_ref(), Some(&read));
}

/// Checks that what is parsed is written unchanged, as text and as JSON.
fn same<T>(text: &str)
where
    T: FromStr + Display + Debug + PartialEq + Serialize + DeserializeOwned,
{
    let json = serde_json::to_string(text).unwrap();
    let from_json = serde_json::from_str::<T>(&json).ok();
    let Ok(read) = text.parse::<T>() else {
        assert!(from_json.is_none(), "{text:?} is refused as text but accepted as JSON");
        return;
    };
    assert_eq!(read.to_string(), text);
    assert_eq!(from_json.as_ref(), Some(&read));
    assert_eq!(serde_json::to_string(&read).unwrap(), json);
}

#[test]
fn ids_have_one_text_form() {
    let samples = [
        "job_01j9zq3v4w5x6y7z8abcdefghj",
        "hold_00000000000000000000000000",
        "cmd_7zzzzzzzzzzzzzzzzzzzzzzzzz",
        "grant_01m7g5qkttekg8ztwtpzgb7g37",
        "wkr_4zzzzzzzzzzzzzzzzzzzzzzzzz",
        "key_40000000000000000000000000",
        "tx_01m7g5qkttekg8ztwtpzgb7g37",
    ];
    bursar_fuzz::texts(&samples, |text| {
        same::<CommandId>(text);
        same::<HoldId>(text);
        same::<GrantId>(text);
        same::<JobId>(text);
        same::<WorkerId>(text);
        same::<KeyId>(text);
        same::<BatchId>(text);
    });
}

#[test]
fn names_parse_back_and_can_be_stored() {
    let long = "x".repeat(255);
    let samples = ["room:sales", "комната/1", "bursar:slots:q\tk", "a", &long, "bursar:key"];
    bursar_fuzz::texts(&samples, |text| {
        same_name::<Scope>(text);
        same_name::<Tenant>(text);
        same_name::<Queue>(text);
        same_name::<JobKind>(text);
        same_name::<Purpose>(text);
        same_name::<Subject>(text);
        same_name::<IdempotencyKey>(text);
        same_name::<FlowKey>(text);
        same_name::<Tag>(text);
        same_name::<WorkerName>(text);
        same_name::<ScheduleName>(text);
        // PostgreSQL cannot store it.
        assert!(Scope::new(text).is_err() || !text.contains('\0'), "{text:?}");
    });
}

#[test]
fn only_tokens_that_were_shown_are_parsed() {
    let grant = Token::new(GrantId(42), [7; 32]).reveal();
    let credentials = CredentialClass::ALL.map(|class| CredentialToken::new(class, 42, [9; 32]).reveal());
    let mut samples: Vec<&str> = credentials.iter().map(String::as_str).collect();
    samples.push(&grant);
    bursar_fuzz::texts(&samples, |text| {
        // The checksum refuses every mistyped token.
        if let Ok(token) = Token::parse(text) {
            assert_eq!((token.reveal().as_str(), text), (text, grant.as_str()));
        }
        if let Ok(token) = CredentialToken::parse(text) {
            assert_eq!(token.reveal(), text);
            assert!(samples.contains(&text), "{text:?} was never shown");
        }
    });
}

#[test]
fn windows_parse_back_from_their_full_form() {
    let samples = [
        "lifetime",
        "rolling:3600000",
        "bucket:100:10:1000",
        "rolling:1h30m",
        "bucket:500000:10000/h",
        "bucket:5k:1.5k/1h30m",
        "month@Europe/Berlin",
        "week@UTC:sunday",
        "day",
        "hour@Australia/Lord_Howe",
        "rolling:9223372036854775807",
        "bucket:9223372036854775807:1:18446744073709551615",
    ];
    bursar_fuzz::texts(&samples, |text| {
        let Ok(window) = text.parse::<Window>() else { return };
        let written = window.to_string();
        assert_eq!(written.parse(), Ok(window.clone()), "{text:?}");
        let json = serde_json::to_string(&window).unwrap();
        assert_eq!(serde_json::from_str::<Window>(&json).unwrap(), window);
        for now in [i64::MIN, -1, 0, 1_790_000_000_000_000, i64::MAX] {
            if let Some((from, to)) = window.calendar_bounds(Time::from_micros(now)) {
                assert!(from < to, "{text:?} at {now}");
            }
        }
        assert!(window.check().is_ok(), "{text:?} is valid");
    });
}

#[test]
fn durations_parse_back_from_their_shortest_form() {
    let samples = ["500ms", "45s", "10m", "1h30m", "7d", "1d2h3m4s5ms", "0s", "106751991d4h54s776ms", "60"];
    bursar_fuzz::texts(&samples, |text| match text.parse::<Span>() {
        Ok(span) => assert_eq!(span.to_string().parse(), Ok(span), "{text:?}"),
        Err(error) => plain(&error),
    });
}

#[test]
fn amounts_are_shown_so_that_they_parse_back() {
    let units = [
        Unit::default(),
        Unit::named("usd"),
        Unit::named("tokens"),
        Unit::named("k"),
        Unit::of("chf", Some("CHF"), Some(2)),
        Unit::of("points", None, Some(12)),
    ];
    let samples = ["25usd", "1.5k", "2M tokens", "10.50", "$1,250.000001", "-9223372036854775808", "CHF9.99", "5k"];
    bursar_fuzz::texts(&samples, |text| {
        for unit in &units {
            match unit.parse(text) {
                Ok(amount) => {
                    assert_eq!(unit.parse(&unit.format(amount)), Ok(amount), "{text:?} in {unit:?}");
                    assert_eq!(unit.parse(&unit.format_typed(amount)), Ok(amount), "{text:?} in {unit:?}");
                }
                Err(error) => plain(&error),
            }
            if let Err(error) = Limit::parse(text, unit) {
                plain(&error);
            }
        }
        let _ = text.parse::<Amount>().map(|amount| amount.unit_name().map(str::len));
    });
}

/// Checks that an error has no words that only Rust programmers know.
fn plain(error: &Invalid) {
    for word in ["i64", "u64", "invalid digit", "ParseIntError", "overflow"] {
        assert!(!error.problem.split('"').next_back().unwrap().contains(word), "{error}");
    }
}

#[test]
fn times_parse_back_to_the_microsecond() {
    let samples = [
        "2026-11-15T10:00:00Z",
        "2026-11-15T10:00:00.123456+05:30",
        "-009999-01-02T01:59:59Z",
        "9999-12-30T22:00:00.999999999Z",
        "1969-12-31T23:59:59.999999Z",
    ];
    bursar_fuzz::texts(&samples, |text| {
        let Ok(time) = text.parse::<Time>() else { return };
        assert_eq!(time.to_string().parse(), Ok(time), "{text:?}");
    });
}

#[test]
fn cron_expressions_tick_later_or_never() {
    let samples = [
        "30 7 * * MON-FRI",
        "0 0 1,15 * MON",
        "*/5 10-30/5 5/15 L JAN-DEC SUN",
        "@yearly",
        "0 0 29 2 *",
        "59 23 31 12 7",
        "0 2 * * FRI-MON",
    ];
    let zones =
        ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"].map(|name| Zone::new(name).unwrap());
    bursar_fuzz::texts(&samples, |text| {
        same::<Cron>(text);
        let Ok(cron) = text.parse::<Cron>() else { return };
        for (zone, after) in zones.iter().zip([i64::MIN, 0, 1_790_000_000_000_000, 253_400_000_000_000_000]) {
            let after = Time::from_micros(after);
            if let Some(tick) = cron.next(zone, after) {
                assert!(tick > after, "{text:?}");
                assert_eq!(cron.ticks(zone, after, tick, 5), [tick], "{text:?}");
            }
        }
    });
}

#[test]
fn parsed_zones_are_known() {
    bursar_fuzz::texts(&["Europe/Berlin", "UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires"], |text| {
        let Ok(zone) = Zone::new(text) else { return };
        assert!(zone.as_str().eq_ignore_ascii_case(text), "{zone} and {text:?}");
        assert!(zone.check().is_ok());
        assert_eq!(serde_json::from_str::<Zone>(&serde_json::to_string(&zone).unwrap()).unwrap(), zone);
    });
}

#[test]
fn traceparents_have_one_text_form() {
    let samples = [
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff",
    ];
    bursar_fuzz::texts(&samples, same::<TraceParent>);
}

#[test]
fn patterns_admit_what_they_cover() {
    bursar_fuzz::texts(&["media-*", "*", "video.generate", "a*b"], |text| {
        let Ok(pattern) = Pattern::new(text) else { return };
        assert_eq!(pattern.to_string(), text);
        assert_eq!(serde_json::from_str::<Pattern>(&serde_json::to_string(&pattern).unwrap()).unwrap(), pattern);
        assert!(pattern.covers(text), "{text:?} covers itself");
        let name = format!("{}more", text.trim_end_matches('*'));
        assert_eq!(pattern.admits(&name), text.ends_with('*'), "{text:?}");
    });
}

#[test]
fn payloads_are_stored_unchanged() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let samples = [r#"{"a":[1,2.50,"x\u0000"],"b":null}"#, " 1e999 ", r#""\ud83d\ude00""#, "null", &deep];
    bursar_fuzz::texts(&samples, |text| {
        let Ok(payload) = Payload::new(text) else { return };
        assert_eq!(payload.as_str(), text.trim_matches([' ', '\t', '\r', '\n']));
        let json = serde_json::to_string(&payload).unwrap();
        assert_eq!(serde_json::from_str::<Payload>(&json).unwrap(), payload);
    });
}

#[test]
fn spans_are_never_negative() {
    bursar_fuzz::values(&[serde_json::json!(u64::MAX), serde_json::json!(1)], |value| {
        let Some(millis) = value.as_u64() else { return };
        let span = Span::from_millis(millis);
        assert!(span >= Span::ZERO && Time::from_micros(0).after(span) >= Time::from_micros(0), "{millis}");
    });
}
