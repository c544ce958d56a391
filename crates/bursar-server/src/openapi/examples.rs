//! Examples of path, query and header parameters for the OpenAPI document.

use serde_json::{Value, json};

const HOLD: &str = "hold_01j9zq3v4w5x6y7z8abcdefghj";
const JOB: &str = "job_01j9zq3v4w5x6y7z8abcdefghj";
const FINGERPRINT: &str = "k3v9w2m4x7c1b5n8";

/// Returns an example of a path parameter.
pub(super) fn path_parameter(path: &str) -> Value {
    let id = |prefix: &str| format!("{prefix}_01j9zq3v4w5x6y7z8abcdefghj");
    let example = match path.split('/').nth(2).unwrap_or_default() {
        "budgets" => "room:sales".to_owned(),
        "{type}" => "refused".to_owned(),
        "{token}" => "blk_0123456789".to_owned(),
        "queues" => "media".to_owned(),
        "tenants" => "acme".to_owned(),
        "schedules" => "nightly".to_owned(),
        "jobs" => JOB.to_owned(),
        "holds" => HOLD.to_owned(),
        "grants" => id("grant"),
        "blobs" => id("blob"),
        "namespaces" => "media".to_owned(),
        "commands" => id("cmd"),
        // Ids of credentials have their highest bit set, which distinguishes them from grants.
        "workers" => id("wkr").replacen("_0", "_4", 1),
        "keys" | "links" => id("key").replacen("_0", "_4", 1),
        other => unreachable!("add an example for the path parameter below {other}"),
    };
    example.into()
}

/// Returns an example of the second path parameter.
pub(super) fn second_parameter(name: &str) -> Value {
    match name {
        "name" => json!("post:42"),
        other => unreachable!("add an example for the second path parameter {other}"),
    }
}

/// Returns an example of a query parameter.
pub(super) fn query_parameter(path: &str, name: &str) -> Value {
    match (name, path) {
        ("cursor", "/v1/journal") | ("after", _) => json!(1042),
        ("cursor", "/v1/holds") => json!(format!("1794736800000000.{HOLD}")),
        ("cursor", "/v1/jobs" | "/v1/dead") => json!(JOB),
        ("cursor", "/v1/held") => json!(json!(["media", "video.cut", "cent"]).to_string()),
        ("cursor", "/v1/dead/groups") => json!(json!(["media", "video.cut", FINGERPRINT]).to_string()),
        ("cursor", "/v1/costs") => json!(json!(["2026-11-02", "media", "video.cut", "room:sales"]).to_string()),
        ("cursor", path) if path.ends_with("/history") || path.ends_with("/events") => {
            json!("tx_01j9zq3v4w5x6y7z8abcdefghj.0")
        }
        ("cursor", path) => path_parameter(path),
        ("limit", _) => json!(100),
        ("minutes" | "steps", _) => json!(60),
        ("order", _) => json!("newest"),
        ("series", _) => json!(true),
        ("queue" | "namespace", _) => json!("media"),
        ("state", "/v1/holds") => json!("held"),
        ("state", "/v1/blobs") => json!("deleted"),
        ("state", _) => json!("queued"),
        ("kind", "/v1/journal") => json!("job.succeeded"),
        ("kind", _) => json!("video.*"),
        ("key", _) => json!("provider-a"),
        ("tag", _) => json!("trial"),
        ("fingerprint", _) => json!(FINGERPRINT),
        ("scope", _) => json!("room:sales"),
        ("prefix", _) => json!("room:"),
        ("stream", _) => json!("scope:room:sales"),
        ("reason", _) => json!("typo"),
        ("filename", _) => json!("cat.png"),
        ("metadata", _) => json!(r#"{"album":7}"#),
        ("channels", _) => json!("queue:media,budget:room:sales"),
        ("agent_id", _) => json!("0a".repeat(32)),
        ("from", "/v1/costs") => json!("2026-11-01"),
        ("to", "/v1/costs") => json!("2026-11-30"),
        ("at" | "from", _) => json!("2026-11-01T00:00:00Z"),
        ("to", _) => json!("2026-12-01T00:00:00Z"),
        (name, path) => unreachable!("add an example for the query parameter {name} of {path}"),
    }
}

/// Returns an example of a header.
pub(super) fn header(name: &str) -> Value {
    match name {
        "Bursar-Tenant" => json!("acme"),
        "Idempotency-Key" => json!("order-7"),
        "If-Match" => json!("\"9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f\""),
        "Last-Event-ID" => json!("1042"),
        other => unreachable!("add an example for the header {other}"),
    }
}
