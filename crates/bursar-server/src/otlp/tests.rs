//! Settings, sampling and batches, without a server.

use std::time::Duration;

use axum::http::HeaderMap;
use bursar::{Time, TraceParent};

use super::span::{Attributes, SpanKind};
use super::*;

fn span(number: u64) -> Span {
    Span {
        context: TraceParent::new(1, number).sampled(),
        parent: None,
        name: "n".to_owned(),
        kind: SpanKind::Server,
        began: Time::from_micros(2),
        ended: Time::from_micros(1),
        attributes: Attributes::default().number("big", u64::MAX).text("long", &"ä".repeat(300)),
        link: None,
        error: None,
    }
}

#[test]
fn addresses_and_headers_are_checked_and_headers_are_not_shown() {
    let good = ["http://collector:4318", "https://otel.example/", "http://127.0.0.1:4318/base"];
    let addresses = good.map(|good| OtlpSettings::new(good).unwrap().address.to_string());
    assert_eq!(
        addresses,
        ["http://collector:4318/v1/traces", "https://otel.example/v1/traces", "http://127.0.0.1:4318/base/v1/traces"]
    );
    assert_eq!(OtlpSettings::at("http://c/custom").unwrap().address, "http://c/custom");
    for bad in ["", "collector:4318", "grpc://c:4317", "http://me:pw@c", "http://c/?key=1", "http://c/#x", "/v1/traces"]
    {
        assert_eq!(OtlpSettings::new(bad).err(), Some(OtlpError::Address), "{bad}");
    }
    let settings = OtlpSettings::new("http://c").unwrap();
    let set = settings.clone().with_headers("api-key=s%20ecret%3D, x-scope = one,").unwrap();
    let headers: Vec<_> = set.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(headers, [("api-key", "s ecret="), ("x-scope", "one")]);
    assert!(!format!("{set:?}").contains("ecret"), "{set:?}");
    for bad in ["x", "=x", "a b=c", "a=%00", "content-type=x", "Host=x", &"a=b,".repeat(33)] {
        assert_eq!(settings.clone().with_headers(bad).err(), Some(OtlpError::Headers), "{bad}");
    }
}

#[test]
fn the_part_of_new_traces_that_is_sampled_follows_the_setting() {
    let with = |sample| Otlp::new(OtlpSettings { sample, ..OtlpSettings::new("http://c").unwrap() }).0;
    let traces: Vec<u128> = (0..1_000).map(|_| Trace::of(&HeaderMap::new()).trace()).collect();
    let sampled = |sample| {
        let otlp = with(sample);
        traces.iter().filter(|trace| otlp.samples(**trace)).count()
    };
    assert_eq!((sampled(0.0), sampled(1.0)), (0, 1_000));
    // The probability of a value out of this range is below one in 10^20.
    assert!((350..650).contains(&sampled(0.5)), "{}", sampled(0.5));
    assert!(!with(0.5).samples(u128::MAX) && with(0.5).samples(0));
}

#[test]
fn a_span_is_written_as_otlp_has_it() {
    let json = span(5).json();
    assert_eq!((&json["traceId"], &json["spanId"]), (&format!("{:032x}", 1).into(), &"0000000000000005".into()));
    assert_eq!((&json["startTimeUnixNano"], &json["endTimeUnixNano"]), (&"2000".into(), &"2000".into()));
    assert_eq!(json["attributes"][0]["value"]["intValue"], u64::MAX.to_string());
    assert_eq!(json["attributes"][1]["value"]["stringValue"].as_str().map(str::len), Some(256));
    assert_eq!((&json["kind"], &json["flags"]), (&2.into(), &1.into()));
    assert!(json.get("parentSpanId").is_none() && json.get("status").is_none() && json.get("links").is_none());
}

#[test]
fn span_ids_of_attempts_differ_and_are_the_same_on_every_node() {
    let ids = [(1, 1), (1, 2), (2, 1)].map(|(job, fence)| attempt_span(JobId(job), fence));
    // Nodes of different versions must agree, so the derivation never changes.
    assert_eq!(ids[0], 0x1659_1c2d_0345_24c0, "{ids:x?}");
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
}

#[tokio::test]
async fn spans_that_find_no_room_are_dropped_and_counted() {
    let settings = OtlpSettings { queue: 2, ..OtlpSettings::new("http://127.0.0.1:1").unwrap() };
    let (otlp, _exporter) = Otlp::new(settings);
    (0..5).for_each(|number| otlp.push(span(number)));
    let SpanCounts { exported, dropped, failed } = otlp.counts();
    assert_eq!((exported, dropped, failed), (0, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_waits_for_a_bounded_time() {
    // This address accepts connections and answers nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let settings = OtlpSettings { timeout: Duration::from_secs(3_600), ..OtlpSettings::new(&endpoint).unwrap() };
    let (otlp, exporter) = Otlp::new(settings);
    let bursar = Bursar::open("sqlite::memory:").await.unwrap();
    let exporting = Exporting::start(otlp.clone(), exporter, &bursar);
    otlp.push(span(1));
    let began = tokio::time::Instant::now();
    exporting.stop().await;
    let took = began.elapsed();
    assert!((FLUSH..FLUSH * 2).contains(&took), "{took:?}");
    bursar.close().await;
}
