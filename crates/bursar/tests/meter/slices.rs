//! Admission from memory: never beyond a limit, and little is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bursar::meter::{Caller, ChargeOutcome, CostModel, Meter, SliceSettings};
use bursar::{Bursar, Limit, ManualClock, Span, Time};

use crate::app::{App, START, caller, hourly, on_both_engines, request};

on_both_engines! {
    a_busy_caller_is_admitted_from_memory,
    nodes_admit_every_unit_and_no_more,
    random_lives_never_exceed_a_limit,
    a_crash_loses_the_rest_of_a_slice_and_nothing_else,
    a_slice_that_is_not_used_is_given_back,
    limits_that_slices_would_blur_are_charged_in_transactions,
    a_stopped_meter_commits_what_it_used,
}

/// A process with a meter, on a database that others share.
struct Node {
    bursar: Bursar,
    meter: Meter,
    clock: Arc<ManualClock>,
}

impl Node {
    async fn open(url: &str, clock: &Arc<ManualClock>, quota: Vec<Limit>) -> Node {
        let bursar = Bursar::options(url).clock(clock.clone()).upkeep(None).open().await.unwrap();
        let builder = Meter::builder(bursar.clone()).clock(clock.clone()).set(|settings| {
            settings.quota = quota;
            settings.patience_ms = 120_000;
            settings.slices = Some(SliceSettings::default());
        });
        Node { bursar, meter: builder.build().unwrap(), clock: clock.clone() }
    }

    /// Sends a request that costs this much, and returns whether it was admitted.
    async fn send(&self, caller: &Caller, cost: i64) -> bool {
        let (head, ()) = request("GET", "/other").body(()).unwrap().into_parts();
        // The size of the payload sets the cost: 1 unit for each started KiB.
        let bytes = u64::try_from(cost).unwrap() * 1_024;
        match self.meter.charge_request(caller, &head, bytes).await {
            ChargeOutcome::Paid(standing) => {
                assert!(standing.limits.iter().all(|limit| limit.remaining >= 0), "{standing:?}");
                true
            }
            ChargeOutcome::Exceeded(_) => false,
            other => panic!("{other:?}"),
        }
    }
}

/// A database that several instances can open.
struct Shared {
    url: String,
    _folder: tempfile::TempDir,
}

impl Shared {
    fn of(url: String) -> Shared {
        let folder = tempfile::tempdir().unwrap();
        let file = format!("sqlite://{}", folder.path().join("bursar.db").display());
        Shared { url: if url.starts_with("sqlite:") { file } else { url }, _folder: folder }
    }

    /// Opens nodes with a quota and with these costs.
    async fn nodes(&self, clock: &Arc<ManualClock>, quota: &[Limit], count: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            let mut node = Node::open(&self.url, clock, quota.to_vec()).await;
            let builder = Meter::builder(node.bursar.clone()).clock(clock.clone());
            let costs = CostModel { base: 0, per_kib: 1, ..CostModel::default() };
            let settings = node.meter.settings().clone();
            node.meter = builder.settings(settings).costs(costs).build().unwrap();
            nodes.push(node);
        }
        nodes
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Time::from_micros(START * 1_000_000)))
}

async fn posted_and_held(bursar: &Bursar, caller: &Caller) -> (i64, i64) {
    let view = bursar.ledger().budget(caller.scope()).await.unwrap().unwrap();
    let lifetime = view.balances.iter().find(|balance| balance.start.is_none()).unwrap();
    (lifetime.posted, lifetime.held)
}

async fn books_are_right(bursar: &Bursar) {
    let report = bursar.verify().await.unwrap();
    assert!(report.violations.is_empty(), "{report:?}");
}

async fn a_busy_caller_is_admitted_from_memory(url: String) {
    let app = App::open_with(url, |meter| {
        meter.set(|settings| {
            settings.quota = hourly(10_000);
            settings.slices = Some(SliceSettings::default());
        })
    });
    let app = app.await;
    for sent in 1..=400 {
        let answer = app.send(1, "GET", "/other", Body::empty()).await;
        assert_eq!((answer.status, answer.quota()), (200, [10_000, 10_000 - sent, START + 3_600]));
    }
    let counters = app.meter.counters();
    assert_eq!((counters.admitted, counters.exceeded), (400, 0));
    assert!(counters.sliced >= 300, "most requests need no transaction: {counters:?}");
    assert!(counters.slices < 40, "{counters:?}");
    // A slice is an ordinary hold, which is seen wherever holds are.
    let (posted, held) = app.spent(1).await;
    assert!(posted + held >= 400 && held > 0, "{posted} posted, {held} held");
    app.meter.give_back_slices().await;
    assert_eq!(app.spent(1).await, (400, 0), "exactly what was admitted");
    // Requests that are held until their cost is known are not admitted from memory.
    let before = app.meter.counters().sliced;
    let work = app.send(1, "POST", "/work?cost=7", Body::empty()).await;
    assert_eq!((work.status, app.meter.counters().sliced), (200, before));
    app.books_are_right().await;
}

async fn nodes_admit_every_unit_and_no_more(url: String) {
    let (shared, clock, caller) = (Shared::of(url), clock(), caller(1));
    let nodes = shared.nodes(&clock, &hourly(2_000), 3).await;
    let tasks: Vec<_> = (0..30)
        .map(|task| {
            let (node, caller) = (&nodes[task % 3], caller.clone());
            async move {
                let mut admitted = 0;
                for _ in 0..100 {
                    admitted += i64::from(node.send(&caller, 1).await);
                }
                admitted
            }
        })
        .collect();
    let mut admitted: i64 = futures_util::future::join_all(tasks).await.into_iter().sum();
    assert!(admitted <= 2_000, "{admitted} of 2,000 were admitted");
    let sliced: u64 = nodes.iter().map(|node| node.meter.counters().sliced).sum();
    assert!(sliced > 500, "only {sliced} of {admitted} needed no transaction");
    // What one node holds comes back to the others.
    for node in &nodes {
        node.meter.give_back_slices().await;
    }
    assert_eq!(posted_and_held(&nodes[0].bursar, &caller).await, (admitted, 0));
    while nodes[0].send(&caller, 1).await {
        admitted += 1;
    }
    assert_eq!(admitted, 2_000, "every unit can be used");
    nodes[0].meter.give_back_slices().await;
    assert_eq!(posted_and_held(&nodes[0].bursar, &caller).await, (2_000, 0));
    books_are_right(&nodes[0].bursar).await;
    for node in nodes {
        node.bursar.close().await;
    }
}

/// Requests, pauses, crashes and new nodes at random, over several hours. The units admitted in each hour, by the clock of the
/// database, are counted apart and never exceed the limits.
async fn random_lives_never_exceed_a_limit(url: String) {
    let (shared, clock, caller) = (Shared::of(url), clock(), caller(1));
    let quota = [hourly(300).remove(0), Limit::new(2_500, "lifetime".parse().unwrap())];
    let mut nodes = shared.nodes(&clock, &quota, 3).await;
    let mut random = 7_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut hours: BTreeMap<i64, i64> = BTreeMap::new();
    let mut sliced = 0;
    for _ in 0..1_500 {
        let node = usize::try_from(draw(3)).unwrap();
        match draw(100) {
            0..85 => {
                let cost = i64::try_from(1 + draw(4)).unwrap();
                let hour = clock_hour(&nodes[node].clock);
                if nodes[node].send(&caller, cost).await {
                    let admitted = hours.entry(hour).or_default();
                    *admitted += cost;
                    assert!(*admitted <= 300, "{admitted} units in hour {hour}");
                    assert!(hours.values().sum::<i64>() <= 2_500, "{hours:?}");
                }
            }
            85..97 => clock.advance(Span::from_millis(100 * draw(100))),
            97 => clock.advance(Span::from_secs(60 * draw(20))),
            98 => nodes[node].meter.give_back_slices().await,
            _ => {
                // A closed instance settles nothing any more, like a process that was killed.
                let fresh = shared.nodes(&clock, &quota, 1).await.remove(0);
                let dead = std::mem::replace(&mut nodes[node], fresh);
                sliced += dead.meter.counters().sliced;
                dead.bursar.clone().close().await;
            }
        }
        if draw(10) == 0 {
            nodes[0].bursar.sweep(100).await.unwrap();
        }
    }
    sliced += nodes.iter().map(|node| node.meter.counters().sliced).sum::<u64>();
    assert!(hours.len() > 2 && sliced > 200, "the life has {} hours and {sliced} units from memory", hours.len());
    for node in &nodes {
        node.meter.give_back_slices().await;
    }
    clock.advance(Span::from_secs(60));
    nodes[0].bursar.sweep(100).await.unwrap();
    let (posted, held) = posted_and_held(&nodes[0].bursar, &caller).await;
    assert!(posted >= hours.values().sum() && held == 0, "nothing that was admitted is missing: {posted}, {held}");
    books_are_right(&nodes[0].bursar).await;
    for node in nodes {
        node.bursar.close().await;
    }
}

fn clock_hour(clock: &ManualClock) -> i64 {
    use bursar::Clock;
    clock.now().micros() / 3_600_000_000
}

async fn a_crash_loses_the_rest_of_a_slice_and_nothing_else(url: String) {
    let (shared, clock, caller) = (Shared::of(url), clock(), caller(1));
    let mut nodes = shared.nodes(&clock, &hourly(1_000), 2).await;
    for _ in 0..3 {
        assert!(nodes[0].send(&caller, 1).await);
    }
    let (posted, held) = posted_and_held(&nodes[1].bursar, &caller).await;
    assert!(posted == 1 && held >= 2, "one charge and a slice: {posted}, {held}");
    let dead = nodes.remove(0);
    dead.bursar.clone().close().await;
    drop(dead);
    clock.advance(Span::from_secs(31));
    nodes[0].bursar.sweep(100).await.unwrap();
    // Nobody knows how much of it was used, so all of it counts.
    assert_eq!(posted_and_held(&nodes[0].bursar, &caller).await, (1 + held, 0));
    books_are_right(&nodes[0].bursar).await;
    nodes.remove(0).bursar.close().await;
}

async fn a_slice_that_is_not_used_is_given_back(url: String) {
    let (shared, clock, caller) = (Shared::of(url), clock(), caller(1));
    let nodes = shared.nodes(&clock, &hourly(1_000), 1).await;
    for _ in 0..3 {
        assert!(nodes[0].send(&caller, 1).await);
    }
    assert!(posted_and_held(&nodes[0].bursar, &caller).await.1 > 0);
    clock.advance(Span::from_secs(10));
    let given_back = async {
        while posted_and_held(&nodes[0].bursar, &caller).await != (3, 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), given_back).await.expect("given back in the background");
    for node in nodes {
        node.bursar.close().await;
    }
}

async fn limits_that_slices_would_blur_are_charged_in_transactions(url: String) {
    let (shared, clock) = (Shared::of(url), clock());
    for (agent, window) in [(1, "rolling:60000"), (2, "bucket:1000:10:1000")] {
        let quota = [hourly(1_000).remove(0), Limit::new(1_000, window.parse().unwrap())];
        let nodes = shared.nodes(&clock, &quota, 1).await;
        for _ in 0..10 {
            assert!(nodes[0].send(&caller(agent), 1).await);
        }
        let counters = nodes[0].meter.counters();
        assert_eq!((counters.admitted, counters.sliced, counters.slices), (10, 0, 0), "{window}");
        for node in nodes {
            node.bursar.close().await;
        }
    }
}

async fn a_stopped_meter_commits_what_it_used(url: String) {
    let (shared, clock, caller) = (Shared::of(url), clock(), caller(1));
    let nodes = shared.nodes(&clock, &hourly(1_000), 2).await;
    let [first, second] = <[Node; 2]>::try_from(nodes).ok().unwrap();
    for _ in 0..5 {
        assert!(first.send(&caller, 1).await);
    }
    drop(first.meter);
    let committed = async {
        while posted_and_held(&second.bursar, &caller).await != (5, 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), committed).await.expect("committed in the background");
    first.bursar.close().await;
    second.bursar.close().await;
}
