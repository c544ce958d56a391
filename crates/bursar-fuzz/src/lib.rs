//! Random and mutated input for tests of parsers.
//!
//! A parser gets random input and mutated samples; the latter pass its first checks. It must not panic, and a test usually
//! asserts that accepted input survives a round trip.
//!
//! ```
//! bursar_fuzz::texts(&["10-20", "7-7"], |text| {
//!     let Some((from, to)) = text.split_once('-') else { return };
//!     let (Ok(from), Ok(to)) = (from.parse::<u8>(), to.parse::<u8>()) else { return };
//!     assert_eq!(format!("{from}-{to}").split_once('-').unwrap().1.parse(), Ok(to));
//! });
//! ```
//!
//! Every run uses the same input, so that failures are reproducible. `PROPTEST_CASES=100000` tries more.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use serde_json::Value;

/// The seed of all input.
const SEED: u64 = 20_261_115;
/// Characters with a meaning in some format, and some rare ones.
const CHARACTERS: &str =
    " \t\r\n\"'\\{}[]()<>:;,.-+*/%#@!?=&|~^$_0123456789abcdefxyzABCDEFLTZ\0\u{7f}é漢\u{301}\u{2028}\u{fffd}\u{10ffff}";

/// Calls `check` with the samples, then with mutated samples and random texts.
///
/// # Panics
/// When `check` panics, with the smallest such text that was found.
pub fn texts(samples: &[&str], check: impl Fn(&str)) {
    let samples: Vec<Vec<char>> = samples.iter().map(|sample| sample.chars().collect()).collect();
    let character = prop_oneof![3 => select(CHARACTERS.chars().collect::<Vec<_>>()), 1 => any::<char>()].boxed();
    let text = |characters: &Vec<char>| characters.iter().collect::<String>();
    samples.iter().for_each(|sample| check(&text(sample)));
    run(&edited(samples, character), |characters| check(&text(characters)));
}

/// Calls `check` with the samples, then with mutated samples and random bytes.
///
/// # Panics
/// When `check` panics.
pub fn bytes(samples: &[&[u8]], check: impl Fn(&[u8])) {
    samples.iter().for_each(|sample| check(sample));
    let samples = samples.iter().map(|sample| sample.to_vec()).collect();
    let character = prop_oneof![1 => select(CHARACTERS.as_bytes().to_vec()), 1 => any::<u8>()].boxed();
    run(&edited(samples, character), |bytes| check(bytes));
}

/// Calls `check` with the samples, then with samples whose parts are replaced by random JSON.
///
/// # Panics
/// When `check` panics.
pub fn values(samples: &[Value], check: impl Fn(&Value)) {
    samples.iter().for_each(&check);
    let changes = vec((any::<Index>(), json()), 0..4);
    run(&(any::<Index>(), changes), |(sample, changes)| {
        let mut value = if samples.is_empty() { Value::Null } else { sample.get(samples).clone() };
        for (index, part) in changes {
            let nodes = count(&value);
            replace(&mut value, &mut index.index(nodes), part);
        }
        check(&value);
    });
}

/// Returns a strategy for JSON of a few levels.
fn json() -> BoxedStrategy<Value> {
    let word = prop_oneof![
        2 => select(vec!["", "a", "day", "lifetime", "rolling", "UTC", "*", "job", "hold", "0", "-1", "id", "queue"]).prop_map(str::to_owned),
        1 => vec(any::<char>(), 0..300).prop_map(|characters| characters.into_iter().collect::<String>()),
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

/// Replaces the node with this number, counted from the root; returns whether it exists.
fn replace(value: &mut Value, index: &mut usize, part: &Value) -> bool {
    if *index == 0 {
        *value = part.clone();
        return true;
    }
    *index -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace(item, index, part)),
        Value::Object(fields) => fields.values_mut().any(|field| replace(field, index, part)),
        _ => false,
    }
}

/// A mutation.
#[derive(Clone, Debug)]
enum Edit<T> {
    Insert(Index, T),
    Replace(Index, T),
    Remove(Index),
    /// Inserts a copy of a part.
    Repeat(Index, Index),
    Truncate(Index),
}

impl<T: Clone> Edit<T> {
    fn apply(&self, characters: &mut Vec<T>) {
        let length = characters.len();
        match self {
            Edit::Insert(at, character) => characters.insert(at.index(length + 1), character.clone()),
            _ if length == 0 => {}
            Edit::Replace(at, character) => characters[at.index(length)] = character.clone(),
            Edit::Remove(at) => drop(characters.remove(at.index(length))),
            Edit::Repeat(from, to) => {
                let (from, to) = (from.index(length), to.index(length));
                let part = characters[from.min(to)..from.max(to)].to_vec();
                characters.splice(to..to, part);
            }
            Edit::Truncate(at) => characters.truncate(at.index(length)),
        }
    }
}

/// Returns a strategy for mutated samples and, in a third of the cases, random input.
fn edited<T: Clone + Debug + 'static>(samples: Vec<Vec<T>>, character: BoxedStrategy<T>) -> BoxedStrategy<Vec<T>> {
    let anything = vec(character.clone(), 0..80).boxed();
    if samples.is_empty() {
        return anything;
    }
    let edit = prop_oneof![
        3 => (any::<Index>(), character.clone()).prop_map(|(at, character)| Edit::Insert(at, character)),
        3 => (any::<Index>(), character).prop_map(|(at, character)| Edit::Replace(at, character)),
        2 => any::<Index>().prop_map(Edit::Remove),
        1 => any::<(Index, Index)>().prop_map(|(from, to)| Edit::Repeat(from, to)),
        1 => any::<Index>().prop_map(Edit::Truncate),
    ];
    let edited = (select(samples), vec(edit, 1..5)).prop_map(|(mut characters, edits)| {
        edits.iter().for_each(|edit| edit.apply(&mut characters));
        characters
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
        Err(TestError::Fail(reason, input)) => panic!("{reason}; input: {input:?}"),
        Err(other) => panic!("{other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn texts_include_samples_mutations_and_random_input() {
        let (same, near, far) = (Cell::new(0), Cell::new(0), Cell::new(0));
        texts(&["sample of a text"], |text| match text {
            "sample of a text" => same.set(same.get() + 1),
            _ if text.contains("sample") || text.contains("text") => near.set(near.get() + 1),
            _ => far.set(far.get() + 1),
        });
        assert!(same.get() > 0 && near.get() > 20 && far.get() > 20, "{same:?} {near:?} {far:?}");
    }

    #[test]
    fn input_is_reproducible_and_failures_are_reported() {
        let seen = || {
            let seen = RefCell::new(Vec::new());
            bytes(&[b"ab"], |bytes| seen.borrow_mut().push(bytes.to_vec()));
            seen.into_inner()
        };
        assert_eq!(seen(), seen());
        let failed = catch_unwind(AssertUnwindSafe(|| {
            values(&[serde_json::json!({ "a": [1, 2] })], |value| assert!(value.is_object(), "no object"));
        }));
        let message = *failed.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("no object"), "{message}");
    }

    #[test]
    fn every_node_can_be_replaced() {
        let whole = serde_json::json!({ "a": [1, { "b": 2 }], "c": null });
        for index in 0..count(&whole) {
            let mut value = whole.clone();
            assert!(replace(&mut value, &mut index.clone(), &Value::from("other")), "{index}");
            assert_ne!(value, whole);
        }
    }
}
