//! Lists with a bound that is looked at while they are read: what is beyond it is never in memory.

use std::fmt;
use std::marker::PhantomData;

use bursar_core::bounds::ITEMS_MAX;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::job::BULK_MAX;

/// Reads the jobs of a bulk call.
pub(crate) fn jobs<'de, T: Deserialize<'de>, D: Deserializer<'de>>(de: D) -> Result<Vec<T>, D::Error> {
    de.deserialize_seq(List { field: "jobs", most: BULK_MAX, entries: PhantomData })
}

/// Reads the items of reports on many jobs.
pub(crate) fn items<'de, T: Deserialize<'de>, D: Deserializer<'de>>(de: D) -> Result<Vec<T>, D::Error> {
    de.deserialize_seq(List { field: "items", most: ITEMS_MAX, entries: PhantomData })
}

struct List<T> {
    field: &'static str,
    most: usize,
    entries: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} entries", self.most)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let List { field, most, .. } = self;
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            if entries.len() == most {
                return Err(A::Error::custom(format_args!(
                    "too many in field `{field}`; at most {most} entries are allowed"
                )));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::value::{Error, SeqDeserializer};

    use super::*;

    #[test]
    fn what_is_beyond_the_bound_is_not_read() {
        let read = |count: usize| {
            let mut left = 0;
            let numbers = (0..count as u64).inspect(|_| left += 1);
            let read = items::<u64, _>(SeqDeserializer::<_, Error>::new(numbers)).map(|items| items.len());
            (read.map_err(|error| error.to_string()), left)
        };
        assert_eq!(read(ITEMS_MAX), (Ok(ITEMS_MAX), ITEMS_MAX));
        let (problem, looked_at) = read(10 * ITEMS_MAX);
        assert!(problem.unwrap_err().contains("at most 1000 entries"));
        assert_eq!(looked_at, ITEMS_MAX + 1);
    }
}
