//! `bursar top`.

use serde_json::json;

use crate::backends::Backends;

#[test]
fn top_is_the_same_over_a_server() {
    let mut both = Backends::new();
    both.read(&["top", "--once"]);
    let jobs = r#"{ "jobs": [{ "queue": "media", "kind": "a" }, { "queue": "media", "kind": "a" },
        { "queue": "mail", "kind": "b", "delay_ms": 3600000 }] }"#;
    both.run(0, &["job", "enqueue", "--file", "-"], jobs);
    both.run(0, &["queue", "pause", "mail"], "");
    both.run(0, &["job", "lease", "media", "--worker", "encoder-1"], "");
    both.run(0, &["budget", "define", "near", "--limit", "100:lifetime"], "");
    both.run(0, &["budget", "define", "far", "--limit", "100:lifetime"], "");
    both.run(0, &["budget", "define", "stopped", "--limit", "1usd:bucket:0.10usd/h"], "");
    both.run(0, &["post", "near=80"], "");
    both.run(0, &["hold", "place", "near=12", "--ttl-ms", "600000"], "");
    both.run(0, &["post", "far=10"], "");
    both.run(0, &["budget", "freeze", "stopped"], "");
    for ran in both.run(0, &["top", "--once", "--json"], "") {
        let view: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let media = &view["queues"][0];
        assert_eq!((&media["name"], &media["waiting"], &media["leased"]), (&json!("media"), &json!(1), &json!(1)));
        assert_eq!(media["enqueued_per_minute"], json!(0.4), "two in five minutes");
        let mail = &view["queues"][1];
        assert_eq!((&mail["scheduled"], &mail["paused"]), (&json!(1), &json!(true)));
        let worker = &view["workers"][0];
        assert_eq!(
            (&worker["name"], &worker["leased"], &worker["queues"]),
            (&json!("encoder-1"), &json!(1), &json!(["media"]))
        );
        let budgets: Vec<&str> =
            view["budgets"].as_array().unwrap().iter().map(|b| b["scope"].as_str().unwrap()).collect();
        assert_eq!(budgets, ["stopped", "near"], "a budget far from its limit is not listed");
        assert_eq!((&view["budgets"][1]["used_percent"], &view["budgets"][1]["remaining"]), (&json!(92), &json!(8)));
    }
    for ran in both.run(0, &["top", "--once"], "") {
        assert!(!ran.out.contains('\x1b'), "--once prints no terminal codes");
        for words in
            ["mail (paused)", "encoder-1", "near", "92 %", "frozen", "bucket:1.00usd:0.10usd/h", "OLDEST WAITING"]
        {
            assert!(ran.out.contains(words), "{words}: {}", ran.out);
        }
        assert!(!ran.out.contains("far "), "{}", ran.out);
    }
}
