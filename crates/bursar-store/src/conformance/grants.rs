//! Grants: minted, redeemed once, revoked, purged.

use bursar_core::answer::Outcome;
use bursar_core::credential::before_all;
use bursar_core::event::Stream;
use bursar_core::grant::{GrantFault, Token};
use bursar_core::id::GrantId;
use bursar_core::name::{Purpose, Subject, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::{Refusal, Violation};
use bursar_core::request::{Command, Mint, Op, Redemption};
use bursar_core::time::Span;

use super::commands::job;
use super::world::{World, limit, post, secs, submitted};

pub(super) fn mint(id: u128, payload: &str) -> (Token, Op) {
    let token = Token::new(GrantId(id), [id as u8; 32]);
    let mint = Mint {
        id: token.id(),
        digest: token.digest(),
        purpose: Purpose::new("upload").expect("a valid name"),
        subject: Subject::new("session-7").expect("a valid name"),
        payload: Payload::new(payload).expect("JSON"),
        ttl: secs(60),
    };
    (token, Op::Mint(mint))
}

pub(super) fn redeem(purpose: &str, subject: &str, token: &Token) -> Op {
    let (purpose, subject) = (Purpose::new(purpose).expect("valid"), Subject::new(subject).expect("valid"));
    let redemption = Redemption::new(purpose, subject, &token.reveal()).expect("well-formed");
    Op::Submit(Command { redeem: vec![redemption], ..Command::default() })
}

pub(super) fn fault(refused: Result<Outcome, Refusal>) -> GrantFault {
    match refused {
        Err(Refusal::Refused(violations)) => match violations.as_slice() {
            [Violation::Grant { fault, .. }] => *fault,
            other => panic!("{other:?}"),
        },
        other => panic!("expected a refusal: {other:?}"),
    }
}

pub(super) async fn token_is_redeemed_once(world: World) {
    let (token, op) = mint(1, r#"{"assetId":"a-1"}"#);
    world.apply(op).await;
    let Op::Submit(mut command) = redeem("upload", "session-7", &token) else { unreachable!() };
    let mut spec = job(None, "null");
    spec.payload_from_grant = true;
    command.jobs.push(spec);
    let both = world.batch(vec![Op::Submit(command.clone()).into(), Op::Submit(command).into()]).await;
    assert_eq!(both.iter().filter(|answer| answer.is_ok()).count(), 1, "one of two requests in a batch");
    let done = submitted(both.into_iter().flatten().next().expect("one is done"));
    assert_eq!(done.grants[0].payload.as_ref().map(Payload::as_str), Some(r#"{"assetId":"a-1"}"#));
    let stored = world.store.job(&Tenant::built_in(), done.jobs[0].id).await.expect("works").expect("it exists");
    assert_eq!(stored.payload.as_str(), r#"{"assetId":"a-1"}"#);
    assert_eq!(fault(world.submit(redeem("upload", "session-7", &token)).await), GrantFault::Redeemed);
}

pub(super) async fn bad_tokens_get_the_same_answer(world: World) {
    let (token, op) = mint(1, "null");
    world.apply(op).await;
    let (unknown, _) = mint(2, "null");
    let wrong = Token::new(GrantId(1), [9; 32]);
    let (late, op) = mint(3, "null");
    let mut messages = Vec::new();
    for (op, expected) in [
        (redeem("upload", "session-7", &unknown), GrantFault::Unknown),
        (redeem("upload", "session-7", &wrong), GrantFault::Wrong),
        (redeem("upload", "session-8", &token), GrantFault::Mismatch),
        (redeem("download", "session-7", &token), GrantFault::Mismatch),
    ] {
        let refused = world.submit(op).await;
        messages.push(refused.as_ref().map(drop).expect_err("refused").to_string().replace("download", "upload"));
        assert_eq!(fault(refused), expected);
    }
    world.apply(op).await;
    world.clock.advance(secs(60));
    let refused = world.submit(redeem("upload", "session-7", &late)).await;
    messages.push(refused.as_ref().map(drop).expect_err("refused").to_string());
    assert_eq!(fault(refused), GrantFault::Expired);
    messages.dedup();
    assert_eq!(messages.len(), 1, "the messages must not differ: {messages:?}");
}

pub(super) async fn grants_are_listed_from_either_end(world: World) {
    for id in 1..=5 {
        world.apply(mint(id, &format!("\"{}\"", "x".repeat(2_000))).1).await;
    }
    let tenant = bursar_core::name::Tenant::built_in();
    let ids = |grants: Vec<bursar_core::grant::Grant>| grants.iter().map(|grant| grant.id.0).collect::<Vec<_>>();
    let oldest = world.store.list_grants(&tenant, Some(GrantId(1)), 2).await.expect("works");
    assert_eq!(ids(oldest), [2, 3]);
    let newest = world.store.list_newest_grants(&tenant, before_all(), 2).await.expect("works");
    assert!(newest.iter().all(|grant| !grant.payload.is_elsewhere()), "payloads are attached");
    assert_eq!(ids(newest), [5, 4]);
    let rest = world.store.list_newest_grants(&tenant, GrantId(4), 10).await.expect("works");
    assert_eq!(ids(rest), [3, 2, 1]);
    let other = bursar_core::name::Tenant::new("globex").expect("valid");
    assert_eq!(world.store.list_newest_grants(&other, before_all(), 10).await.expect("works"), []);
}

pub(super) async fn revoked_and_purged_grants_cannot_be_redeemed(world: World) {
    let (token, op) = mint(1, "null");
    world.apply(op).await;
    world.apply(Op::Revoke { grant: GrantId(1) }).await;
    world.apply(Op::Revoke { grant: GrantId(1) }).await;
    assert_eq!(fault(world.submit(redeem("upload", "session-7", &token)).await), GrantFault::Revoked);
    assert!(matches!(world.submit(Op::Revoke { grant: GrantId(9) }).await, Err(Refusal::UnknownGrant { .. })));
    let (used, op) = mint(2, &format!("\"{}\"", "x".repeat(5_000)));
    world.apply(op).await;
    world.apply(redeem("upload", "session-7", &used)).await;
    assert!(matches!(world.submit(Op::Revoke { grant: GrantId(2) }).await, Err(Refusal::AlreadyRedeemed { .. })));
    let tenant = bursar_core::name::Tenant::built_in();
    assert_eq!(world.store.list_grants(&tenant, None, 10).await.expect("works").len(), 2);
    world.apply(Op::PurgeGrants { grants: vec![GrantId(1), GrantId(2)] }).await;
    assert_eq!(
        world.store.list_grants(&tenant, None, 10).await.expect("works").len(),
        2,
        "grants are not purged before they expire"
    );
    world.clock.advance(Span::from_days(1));
    world.apply(Op::PurgeGrants { grants: vec![GrantId(1), GrantId(2), GrantId(3)] }).await;
    assert_eq!(world.store.list_grants(&tenant, None, 10).await.expect("works"), []);
    let left = world.store.erase_payloads(&[Stream::Grant(GrantId(2))], &[]).await.expect("works");
    assert!(!left, "a purge deletes the payload");
    assert_eq!(fault(world.submit(redeem("upload", "session-7", &used)).await), GrantFault::Unknown);
    world.budget("room", &[limit(1, "day")]).await;
    world.apply(post("room", 1)).await;
}

pub(super) async fn expired_grant_stays_expired_when_the_clock_is_set_back(world: World) {
    let (token, op) = mint(1, "null");
    world.apply(op).await;
    world.clock.advance(secs(61));
    assert_eq!(fault(world.submit(redeem("upload", "session-7", &token)).await), GrantFault::Expired);
    world.clock.turn_back(secs(30));
    assert_eq!(fault(world.submit(redeem("upload", "session-7", &token)).await), GrantFault::Expired);
}
