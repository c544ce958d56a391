//! Roll-up of postings in bounded steps, and a rebuild after a jump of the clock.

use bursar_core::request::Op;
use bursar_core::time::{Span, Time};

use crate::ask::{clock, done, every_store, key_of, keyed, post, posted};

#[tokio::test]
async fn a_backlog_is_rolled_up_in_steps_oldest_first() {
    let clock = clock();
    let stores = every_store(&clock).await;
    for (engine, store) in &stores {
        // The postings of a transaction have the same time; their sequence numbers give their age.
        done(&**store, (0..6_000).map(|_| post("a", 1)).collect()).await;
        done(&**store, (0..6_000).map(|_| post("b", 1)).collect()).await;
        assert_eq!(posted(&**store, "a").await, 6_000, "{engine}");
    }
    clock.advance(Span::from_days(500));
    for (engine, store) in &stores {
        let single = async || {
            let mut left = Vec::new();
            for scope in ["a", "b"] {
                left.push(store.spent(&key_of(scope), Time::MIN, Time::NEVER).await.unwrap());
            }
            (left[0], left[1])
        };
        let tidy = || Op::Tidy { scopes: vec![key_of("a").1, key_of("b").1] }.into();
        for left in [(0, 2_000), (0, 0), (0, 0)] {
            done(&**store, vec![tidy()]).await;
            assert_eq!(single().await, left, "{engine}");
            assert_eq!(posted(&**store, "b").await, 6_000, "{engine}");
            assert_eq!(store.verify().await.unwrap().violations, Vec::<String>::new(), "{engine}");
        }
    }
}

#[tokio::test]
async fn a_key_reused_after_a_clock_jump_can_be_rebuilt() {
    let clock = clock();
    for (engine, store) in every_store(&clock).await {
        done(&*store, vec![keyed(post("a", 1), "k")]).await;
        clock.advance(Span::from_days(10));
        assert_eq!(store.forget_keys(100).await.unwrap(), 1, "{engine}");
        clock.set(Time::from_micros(1_794_823_200_000_000));
        done(&*store, vec![keyed(post("a", 2), "k")]).await;
        let before = store.scope(&key_of("a")).await.unwrap();
        assert_eq!(store.rebuild().await.unwrap(), 2, "{engine}");
        assert_eq!(store.scope(&key_of("a")).await.unwrap(), before, "{engine}");
        // The key belongs to the later request.
        assert!(done(&*store, vec![keyed(post("a", 2), "k")]).await[0].replayed, "{engine}");
    }
}
