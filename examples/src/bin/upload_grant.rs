//! A grant to upload one file, once. One command redeems the grant, charges the storage and enqueues the job: all of it
//! happens, or none.

use std::time::Duration;

use bursar::{Budget, Bursar, CommandBuilder, Error, JobSpec, Limit, Payload, Refusal, Violation, Window};
use bursar_examples::Failure;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bursar = Bursar::open("sqlite::memory:").await?;
    bursar.ledger().define("storage:user-7", Budget::new([Limit::new(1_000, Window::Lifetime)])).await?;

    // The token is returned once. Only the digest of its secret is stored.
    let permitted = Payload::of(&json!({ "path": "in/holiday.mp4", "bytes_max": 700 }))?;
    let minted = bursar.grants().mint("upload", "user-7", permitted.clone(), Duration::from_secs(900)).await?;
    let token = minted.token.ok_or("a new grant has a token")?;

    // A refused command leaves the grant unused. The first exceeds the storage budget; the second has the wrong subject.
    let refusal = upload(&bursar, "user-7", &token, 2_000).submit().await.err();
    assert!(matches!(violation(refusal.as_ref()), Some(Violation::Limit { available: 1_000, .. })));
    let refusal = upload(&bursar, "user-8", &token, 700).submit().await.err();
    assert!(matches!(violation(refusal.as_ref()), Some(Violation::Grant { .. })));

    // The upload: the grant is redeemed, the storage is charged, and the job gets the grant's payload.
    let receipt = upload(&bursar, "user-7", &token, 700).submit().await?;
    assert_eq!(receipt.done.posted[0].balances[0].remaining, 300);
    let job = bursar.jobs().find(receipt.done.jobs[0].id).await?.ok_or("the job is there")?;
    assert_eq!(job.payload, permitted);

    // A second use is refused with the same violation as a wrong token.
    let refusal = upload(&bursar, "user-7", &token, 100).submit().await.err();
    assert!(matches!(violation(refusal.as_ref()), Some(Violation::Grant { .. })));
    assert_eq!(bursar.ledger().remaining("storage:user-7").await?[0].remaining, Some(300));

    bursar.close().await;
    Ok(())
}

/// Redeems the token, charges the storage and enqueues the job.
fn upload(bursar: &Bursar, user: &str, token: &str, bytes: i64) -> CommandBuilder {
    let queue = "media".try_into().expect("a queue may have this name");
    let kind = "video.transcode".try_into().expect("a kind of job may have this name");
    let job = JobSpec { payload_from_grant: true, ..JobSpec::new(queue, kind, Payload::default()) };
    bursar.command().redeem("upload", user, token).charge("storage:user-7", bytes).job(job)
}

/// The first violation of a refusal.
fn violation(error: Option<&Error>) -> Option<&Violation> {
    match error?.refusal()? {
        Refusal::Refused(violations) => violations.first(),
        _ => None,
    }
}
