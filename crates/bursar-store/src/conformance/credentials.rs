//! Credentials, which are grants that can be used repeatedly; and preconditions and idempotency keys of definitions.

use bursar_core::answer::Answer;
use bursar_core::budget::Budget;
use bursar_core::credential::{CredentialClass, CredentialToken, before_all};
use bursar_core::cron::Cron;
use bursar_core::grant::GrantFault;
use bursar_core::id::GrantId;
use bursar_core::job::{QueueConfig, ScheduleSpec};
use bursar_core::name::{IdempotencyKey, Queue, ScheduleName, Subject, Tenant};
use bursar_core::payload::Payload;
use bursar_core::refusal::Refusal;
use bursar_core::request::{Fingerprint, IfMatch, Mint, Op, Request};
use bursar_core::time::Span;
use bursar_core::window::Zone;

use super::work::work;
use super::world::{World, limit, scope, secs, submitted};
use crate::clock::Clock;

fn mint(number: u128, ttl: Span) -> (CredentialToken, Mint) {
    let token = CredentialToken::new(CredentialClass::Worker, number, [number as u8; 32]);
    let mint = Mint {
        id: token.id(),
        digest: token.token().digest(),
        purpose: CredentialClass::Worker.purpose(),
        subject: Subject::new("encoder").expect("a valid name"),
        payload: Payload::new("{}").expect("JSON"),
        ttl,
    };
    (token, mint)
}

impl World {
    async fn fault(&self, token: &CredentialToken) -> Option<GrantFault> {
        let row = self.store.grant_of_any_tenant(token.id()).await.expect("works");
        token.admit(row.as_ref(), self.clock.now()).err()
    }
}

pub(super) async fn credential_is_rotated_with_an_overlap(world: World) {
    let (old, minted) = mint(1, Span::from_micros(i64::MAX));
    world.apply(Op::Mint(minted)).await;
    assert_eq!(world.fault(&old).await, None);
    let used = world.submit(Op::Use { grant: old.id() }).await.expect("done");
    assert!(used.entry.is_some(), "the use is recorded in the journal");
    let refused = world.submit(Op::Use { grant: GrantId(7) }).await;
    assert!(
        matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "grant"),
        "an ordinary grant cannot be used as a credential"
    );
    let (new, minted) = mint(2, secs(1_000));
    let rotate = |grant: GrantId, mint: &Mint| Op::Rotate { grant, mint: mint.clone(), overlap: secs(60) };
    let answer = world.submit(rotate(old.id(), &minted)).await.expect("done").answer;
    assert!(matches!(answer, Answer::Minted { grant, .. } if grant == new.id()), "{answer:?}");
    assert_eq!((world.fault(&old).await, world.fault(&new).await), (None, None), "both are valid during the overlap");
    world.clock.advance(secs(61));
    assert_eq!((world.fault(&old).await, world.fault(&new).await), (Some(GrantFault::Expired), None));
    let (_, third) = mint(3, secs(1_000));
    let over = world.submit(rotate(old.id(), &third)).await;
    assert!(matches!(over, Err(Refusal::GrantOver { .. })), "{over:?}");
    world.apply(Op::Revoke { grant: new.id() }).await;
    assert_eq!(world.fault(&new).await, Some(GrantFault::Revoked));
    assert_eq!(
        world.submit(Op::Use { grant: new.id() }).await.expect("done").entry,
        None,
        "a revoked credential is not used"
    );
    let listed = |rows: Vec<bursar_core::grant::Grant>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
    let before = world.store.list_grants(&Tenant::built_in(), None, 10).await.expect("works");
    world.store.rebuild().await.expect("works");
    let after = world.store.list_grants(&Tenant::built_in(), None, 10).await.expect("works");
    assert_eq!(before, after, "a rebuild restores all grants");
    assert_eq!(listed(after), [old.id(), new.id()]);
}

pub(super) async fn credentials_are_separate_from_grants(world: World) {
    let (token, minted) = mint(1, secs(60));
    let ordinary = Mint { id: GrantId(7), ..minted.clone() };
    let refused = world.submit(Op::Mint(ordinary)).await;
    assert!(
        matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "purpose"),
        "a credential cannot have the id of a grant"
    );
    world.apply(Op::Mint(minted)).await;
    let found = world.store.list_grants(&Tenant::built_in(), Some(before_all()), 10).await.expect("works");
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [token.id()], "credentials sort after all grants");
    let (_, other) = mint(2, secs(60));
    let unknown = world.submit(Op::Rotate { grant: GrantId(7), mint: other, overlap: Span::ZERO }).await;
    assert!(matches!(unknown, Err(Refusal::UnknownGrant { .. })));
}

pub(super) async fn if_match_refuses_to_overwrite_a_change(world: World) {
    let budget = |amount| Budget::new([limit(amount, "day")]);
    let define = |amount, seen: Option<&Budget>| Request {
        if_match: seen.map(Fingerprint::of).map(IfMatch::Only),
        ..Request::from(Op::Define { scope: scope("room"), budget: budget(amount) })
    };
    let send = async |request| world.batch(vec![request]).await.remove(0).map(drop);
    let changed = |what| Err(Refusal::Changed { what });
    assert_eq!(send(define(1, Some(&budget(1)))).await, changed("budget"), "there is no budget yet");
    assert_eq!(send(define(1, None)).await, Ok(()));
    assert_eq!(send(define(2, Some(&budget(1)))).await, Ok(()));
    assert_eq!(send(define(3, Some(&budget(1)))).await, changed("budget"));
    // Within a batch the second request sees the change of the first.
    let both = world.batch(vec![define(4, Some(&budget(2))), define(5, Some(&budget(2)))]).await;
    assert_eq!(both.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);

    let queue = |config: QueueConfig, seen: &QueueConfig| Request {
        if_match: Some(IfMatch::Only(Fingerprint::of(seen))),
        ..Request::from(Op::DefineQueue { queue: Queue::new("q").expect("valid"), config })
    };
    let paused = QueueConfig { paused: true, ..QueueConfig::default() };
    assert_eq!(
        send(queue(paused.clone(), &QueueConfig::default())).await,
        Ok(()),
        "a queue without settings has the defaults"
    );
    assert_eq!(send(queue(paused, &QueueConfig::default())).await, changed("queue"));

    let spec = |cron: &str| ScheduleSpec::new(Cron::new(cron).expect("valid"), Zone::utc(), work("q", "tick"));
    let schedule = |op: fn(ScheduleName, ScheduleSpec) -> Op, seen: Option<ScheduleSpec>| Request {
        if_match: seen.as_ref().map(Fingerprint::of).map(IfMatch::Only),
        ..Request::from(op(ScheduleName::new("s").expect("valid"), spec("@daily")))
    };
    let put: fn(ScheduleName, ScheduleSpec) -> Op = |schedule, spec| Op::DefineSchedule { schedule, spec };
    let remove: fn(ScheduleName, ScheduleSpec) -> Op = |schedule, _| Op::RemoveSchedule { schedule };
    assert_eq!(send(schedule(put, None)).await, Ok(()));
    assert_eq!(send(schedule(put, Some(spec("@hourly")))).await, changed("schedule"));
    assert_eq!(send(schedule(remove, Some(spec("@hourly")))).await, changed("schedule"));
    assert_eq!(send(schedule(remove, Some(spec("@daily")))).await, Ok(()));
    let elsewhere =
        Request { if_match: Some(IfMatch::Only(Fingerprint(1))), ..Request::from(Op::Freeze { scope: scope("room") }) };
    assert!(matches!(send(elsewhere).await, Err(Refusal::Invalid(invalid)) if invalid.field == "if_match"));
}

pub(super) async fn idempotency_keys_work_for_schedules(world: World) {
    let name = ScheduleName::new("nightly").expect("a valid name");
    let spec = ScheduleSpec::new(Cron::new("@daily").expect("valid"), Zone::utc(), work("q", "tick"));
    let keyed = |key: &str, op: Op| Request::from(op).with_key(IdempotencyKey::new(key).expect("a valid key"));
    let define = keyed("define", Op::DefineSchedule { schedule: name.clone(), spec });
    for replayed in [false, true] {
        let done = world.batch(vec![define.clone()]).await.remove(0).expect("done");
        assert_eq!((done.replayed, done.answer), (replayed, Answer::Done));
    }
    let run = keyed("run", Op::RunSchedule { schedule: name.clone() });
    let twice = world.batch(vec![run.clone(), run.clone()]).await;
    let [first, second] = twice.try_into().expect("two answers");
    let (first, second) = (first.expect("done"), second.expect("done"));
    assert_eq!((first.replayed, second.replayed), (false, true));
    assert_eq!(submitted(first), submitted(second.clone()), "one job and one answer");
    let other = keyed("run", Op::RemoveSchedule { schedule: name });
    assert!(matches!(world.batch(vec![other]).await.remove(0), Err(Refusal::KeyReused { .. })));
    world.store.rebuild().await.expect("works");
    let again = world.batch(vec![run]).await.remove(0).expect("done");
    assert!(again.replayed, "the rebuild restores the key");
}
