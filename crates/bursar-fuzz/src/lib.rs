//! Input that is wrong, or nearly right, for tests of whatever reads some.
//!
//! A reader is given texts that have nothing to do with what it reads, and texts that were right until somebody edited them: these
//! get past the first check, and to the next. It must not panic, and what it takes it must write so that it reads the same again;
//! the test says so.
//!
//! ```
//! bursar_fuzz::texts(&["10-20", "7-7"], |text| {
//!     let Some((from, to)) = text.split_once('-') else { return };
//!     let (Ok(from), Ok(to)) = (from.parse::<u8>(), to.parse::<u8>()) else { return };
//!     assert_eq!(format!("{from}-{to}").split_once('-').unwrap().1.parse(), Ok(to));
//! });
//! ```
//!
//! Every run tries the same input, so that a test fails today if it failed yesterday. `PROPTEST_CASES=100000` tries more of it.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use serde_json::Value;

/// Where the input comes from.
const SEED: u64 = 20_261_115;
/// Signs that mean something to somebody, and some that are rare.
const SIGNS: &str =
    " \t\r\n\"'\\{}[]()<>:;,.-+*/%#@!?=&|~^$_0123456789abcdefxyzABCDEFLTZ\0\u{7f}é漢\u{301}\u{2028}\u{fffd}\u{10ffff}";

/// Tries texts: any, and those that come of editing the samples. The samples themselves are tried first.
///
/// # Panics
/// When `check` does, with the smallest text that was found to make it.
pub fn texts(samples: &[&str], check: impl Fn(&str)) {
    let samples: Vec<Vec<char>> = samples.iter().map(|sample| sample.chars().collect()).collect();
    let sign = prop_oneof![3 => select(SIGNS.chars().collect::<Vec<_>>()), 1 => any::<char>()].boxed();
    let text = |signs: &Vec<char>| signs.iter().collect::<String>();
    samples.iter().for_each(|sample| check(&text(sample)));
    run(&edited(samples, sign), |signs| check(&text(signs)));
}

/// The same, in bytes.
///
/// # Panics
/// When `check` does.
pub fn bytes(samples: &[&[u8]], check: impl Fn(&[u8])) {
    samples.iter().for_each(|sample| check(sample));
    let samples = samples.iter().map(|sample| sample.to_vec()).collect();
    let sign = prop_oneof![1 => select(SIGNS.as_bytes().to_vec()), 1 => any::<u8>()].boxed();
    run(&edited(samples, sign), |bytes| check(bytes));
}

/// Tries JSON: the samples with parts of them replaced by others.
///
/// # Panics
/// When `check` does.
pub fn values(samples: &[Value], check: impl Fn(&Value)) {
    samples.iter().for_each(&check);
    let changes = vec((any::<Index>(), json()), 0..4);
    run(&(any::<Index>(), changes), |(sample, changes)| {
        let mut value = if samples.is_empty() { Value::Null } else { sample.get(samples).clone() };
        for (place, part) in changes {
            let nodes = count(&value);
            replace(&mut value, &mut place.index(nodes), part);
        }
        check(&value);
    });
}

/// Any JSON, a few levels deep.
fn json() -> BoxedStrategy<Value> {
    let word = prop_oneof![
        2 => select(vec!["", "a", "day", "lifetime", "rolling", "UTC", "*", "job", "hold", "0", "-1", "id", "queue"]).prop_map(str::to_owned),
        1 => vec(any::<char>(), 0..300).prop_map(|signs| signs.into_iter().collect::<String>()),
    ];
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec![0_i64, 1, -1, i64::MAX, i64::MIN, 1_000]).prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((word.clone(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Puts something in the place of the node of a number, counted from the root. Whether it was found.
fn replace(value: &mut Value, place: &mut usize, part: &Value) -> bool {
    if *place == 0 {
        *value = part.clone();
        return true;
    }
    *place -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace(item, place, part)),
        Value::Object(fields) => fields.values_mut().any(|field| replace(field, place, part)),
        _ => false,
    }
}

/// What somebody does to a text who mistypes.
#[derive(Clone, Debug)]
enum Edit<T> {
    Insert(Index, T),
    Replace(Index, T),
    Remove(Index),
    /// A part of it stands there again.
    Repeat(Index, Index),
    Cut(Index),
}

impl<T: Clone> Edit<T> {
    fn apply(&self, signs: &mut Vec<T>) {
        let length = signs.len();
        match self {
            Edit::Insert(at, sign) => signs.insert(at.index(length + 1), sign.clone()),
            _ if length == 0 => {}
            Edit::Replace(at, sign) => signs[at.index(length)] = sign.clone(),
            Edit::Remove(at) => drop(signs.remove(at.index(length))),
            Edit::Repeat(from, to) => {
                let (from, to) = (from.index(length), to.index(length));
                let part = signs[from.min(to)..from.max(to)].to_vec();
                signs.splice(to..to, part);
            }
            Edit::Cut(at) => signs.truncate(at.index(length)),
        }
    }
}

/// Samples that somebody edited, and a third that has nothing to do with them.
fn edited<T: Clone + Debug + 'static>(samples: Vec<Vec<T>>, sign: BoxedStrategy<T>) -> BoxedStrategy<Vec<T>> {
    let anything = vec(sign.clone(), 0..80).boxed();
    if samples.is_empty() {
        return anything;
    }
    let edit = prop_oneof![
        3 => (any::<Index>(), sign.clone()).prop_map(|(at, sign)| Edit::Insert(at, sign)),
        3 => (any::<Index>(), sign).prop_map(|(at, sign)| Edit::Replace(at, sign)),
        2 => any::<Index>().prop_map(Edit::Remove),
        1 => any::<(Index, Index)>().prop_map(|(from, to)| Edit::Repeat(from, to)),
        1 => any::<Index>().prop_map(Edit::Cut),
    ];
    let edited = (select(samples), vec(edit, 1..5)).prop_map(|(mut signs, edits)| {
        edits.iter().for_each(|edit| edit.apply(&mut signs));
        signs
    });
    prop_oneof![1 => anything, 2 => edited].boxed()
}

fn run<S: Strategy>(input: &S, check: impl Fn(&S::Value)) {
    let config = Config { failure_persistence: None, rng_seed: RngSeed::Fixed(SEED), ..Config::default() };
    let outcome = TestRunner::new(config).run(input, |input| {
        check(&input);
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, input)) => panic!("{reason}, of {input:?}"),
        Err(other) => panic!("{other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn samples_and_what_is_nearly_one_are_among_the_texts() {
        let (same, near, far) = (Cell::new(0), Cell::new(0), Cell::new(0));
        texts(&["sample of a text"], |text| match text {
            "sample of a text" => same.set(same.get() + 1),
            _ if text.contains("sample") || text.contains("text") => near.set(near.get() + 1),
            _ => far.set(far.get() + 1),
        });
        assert!(same.get() > 0 && near.get() > 20 && far.get() > 20, "{same:?} {near:?} {far:?}");
    }

    #[test]
    fn the_same_is_tried_each_time_and_what_fails_is_told() {
        let seen = || {
            let seen = RefCell::new(Vec::new());
            bytes(&[b"ab"], |bytes| seen.borrow_mut().push(bytes.to_vec()));
            seen.into_inner()
        };
        assert_eq!(seen(), seen());
        let failed = catch_unwind(AssertUnwindSafe(|| {
            values(&[serde_json::json!({ "a": [1, 2] })], |value| assert!(value.is_object(), "no object"));
        }));
        let told = *failed.unwrap_err().downcast::<String>().unwrap();
        assert!(told.contains("no object"), "{told}");
    }

    #[test]
    fn every_node_can_be_replaced() {
        let whole = serde_json::json!({ "a": [1, { "b": 2 }], "c": null });
        for place in 0..count(&whole) {
            let mut value = whole.clone();
            assert!(replace(&mut value, &mut place.clone(), &Value::from("other")), "{place}");
            assert_ne!(value, whole);
        }
    }
}
