//! The context of a request (tenant, actor, reason) in the journal and in events.

use bursar::{Actor, Context, Tenant};
use std::time::Duration;

use crate::home::{Place, on_both_engines};

on_both_engines! {
    context_reaches_the_journal_and_listeners,
}

async fn context_reaches_the_journal_and_listeners(place: Place) {
    let home = place.open().await;
    let context = Context {
        tenant: Tenant::new("acme").unwrap(),
        actor: Actor::Agent("a-7".into()),
        correlation_id: Some("trace-42".into()),
        reason: Some("nightly import".into()),
        traceparent: None,
        reporter: None,
    };
    let acme = crate::home::Home { bursar: home.bursar.in_context(context.clone()), ..home };
    let mut notices = acme.bursar.listen();
    acme.budgets(&["room"]).await;
    let ledger = acme.bursar.ledger();
    ledger.post("room", 5).await.unwrap();
    let held = ledger.hold("room", 10, Duration::from_secs(60)).await.unwrap();
    held.release("not needed").await.unwrap();
    if acme.postgres.is_some() {
        let mut conn = acme.connect().await;
        let mut tx = bursar::sqlx::Connection::begin(&mut conn).await.unwrap();
        let receipt = acme.bursar.command().charge("room", 1).submit_in(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        acme.bursar.announce([&receipt]);
    } else {
        let done = acme.bursar.transaction(|tx| tx.submit(tx.command().charge("room", 1))).await;
        assert_eq!(done.unwrap().done.posted.len(), 1);
    }

    let (events, _) = acme.bursar.journal().read(0, 100).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.event.kind()).collect();
    assert_eq!(kinds, ["budget.defined", "spend.posted", "hold.placed", "hold.released", "spend.posted"]);
    for event in &events {
        let expected = match event.event.kind() {
            "hold.released" => context.clone().because("not needed"),
            _ => context.clone(),
        };
        assert_eq!(event.context, expected, "{event:?}");
        let notice = notices.next().await.expect("open").expect("not lagging");
        assert_eq!((notice.event(), notice.context()), (&event.event, &expected));
    }
    let other_tenant = acme.bursar.tenant("other").unwrap();
    assert!(other_tenant.journal().read(0, 100).await.unwrap().0.is_empty(), "tenants are isolated");
}
