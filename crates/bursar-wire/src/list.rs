//! Lists with a maximum length that is checked while they are parsed, so that entries beyond it never use memory.

use std::fmt;
use std::marker::PhantomData;

use bursar_core::bounds::ITEMS_MAX;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::job::BULK_MAX;

/// Parses the jobs of a bulk request.
pub(crate) fn jobs<'de, T: Deserialize<'de>, D: Deserializer<'de>>(de: D) -> Result<Vec<T>, D::Error> {
    de.deserialize_seq(List { max: BULK_MAX, entries: PhantomData })
}

/// Parses the items of a request for several jobs.
pub(crate) fn items<'de, T: Deserialize<'de>, D: Deserializer<'de>>(de: D) -> Result<Vec<T>, D::Error> {
    de.deserialize_seq(List { max: ITEMS_MAX, entries: PhantomData })
}

struct List<T> {
    max: usize,
    entries: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} entries", self.max)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let List { max, .. } = self;
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            if entries.len() == max {
                return Err(A::Error::custom(format_args!("there are more; at most {max} entries are allowed")));
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
    fn entries_beyond_the_maximum_are_not_parsed() {
        let read = |count: usize| {
            let mut parsed = 0;
            let numbers = (0..count as u64).inspect(|_| parsed += 1);
            let read = items::<u64, _>(SeqDeserializer::<_, Error>::new(numbers)).map(|items| items.len());
            (read.map_err(|error| error.to_string()), parsed)
        };
        assert_eq!(read(ITEMS_MAX), (Ok(ITEMS_MAX), ITEMS_MAX));
        let (problem, parsed) = read(10 * ITEMS_MAX);
        assert!(problem.unwrap_err().contains("at most 1000 entries"));
        assert_eq!(parsed, ITEMS_MAX + 1);
    }
}
