//! A deserializer that accepts only JSON objects for structs, and durations for their fields in milliseconds.
//!
//! The derived implementations of serde also accept an array, whose elements are the fields in order. `"filter": [null, null]` would be a
//! filter that matches every job; this module refuses it at any depth. [`object`] has the rule for durations.
//!
//! Errors name the field.

mod object;

pub use object::duration_field;

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// Parses a value, refusing an array in the place of an object. If it is an object, its fields in `ignored` are skipped.
pub(super) fn read<'de, T, D>(de: D, ignored: &'static [&'static str]) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(Whole { de, ignored })
}

/// The deserializer of a whole body.
struct Whole<D> {
    de: D,
    ignored: &'static [&'static str],
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Whole<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        Strict(self.de).deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.de.deserialize_map(object::Object { visitor, fields, ignored: self.ignored })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The words before the name of a field in an error.
const BEFORE_FIELD: [&str; 4] = ["unknown field `", "missing field `", "duplicate field `", "wrong value in field `"];

/// Returns where an error has the name of the field that it is about.
pub(super) fn field_at(error: &str) -> Option<usize> {
    let found = BEFORE_FIELD.iter().filter_map(|words| error.find(words).map(|at| at + words.len()));
    found.min()
}

/// Returns the error about a part of `outer`, so that it names the whole path: `charges` and `[0].amount` give `charges[0].amount`.
fn nested<E: Error>(outer: &str, error: &str) -> E {
    match field_at(error) {
        Some(at) => {
            let (before, inner) = error.split_at(at);
            let dot = if inner.starts_with('[') { "" } else { "." };
            E::custom(format_args!("{before}{outer}{dot}{inner}"))
        }
        None => E::custom(format_args!("wrong value in field `{outer}`: {error}")),
    }
}

/// The names that serde gives to types, and the words of people.
const TYPES: [(&str, &str); 9] = [
    ("expected i64", "expected a whole number"),
    ("expected u64", "expected a whole number that is not negative"),
    ("expected u32", "expected a whole number from 0 to 4294967295"),
    ("expected u8", "expected a whole number from 0 to 255"),
    ("expected i16", "expected a whole number from -32768 to 32767"),
    ("expected f64", "expected a number"),
    ("expected a boolean", "expected true or false"),
    ("expected a sequence", "expected a list"),
    ("expected a map", "expected an object"),
];

/// Rewrites an error of serde in plain words.
pub(super) fn in_plain_words(error: &str) -> String {
    TYPES.iter().fold(error.to_owned(), |text, (name, words)| text.replace(name, words))
}

/// Wraps deserializers, visitors, seeds and accesses of serde, so that nested values are strict too.
struct Strict<T>(T);

macro_rules! forward_to {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Strict(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    forward_to! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option
        deserialize_unit deserialize_seq deserialize_map deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(object::Object { visitor, fields, ignored: &[] })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, Strict(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, Strict(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(length, Strict(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, length, Strict(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, Strict(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! forward_visit {
    ($($method:ident: $type:ty,)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    forward_visit! {
        visit_bool: bool, visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128, visit_u8: u8,
        visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128, visit_f32: f32, visit_f64: f64, visit_char: char,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String, visit_bytes: &[u8],
        visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, de: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(de))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, de: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(de))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Entries { list, index: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Strict(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, word: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Strict(word))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, de: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(de))
    }
}

/// The entries of a list while they are read.
struct Entries<A> {
    list: A,
    /// The number of entries read so far.
    index: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let index = self.index;
        self.index += 1;
        let read = self.list.next_element_seed(Strict(seed));
        read.map_err(|error| nested(&format!("[{index}]"), &error.to_string()))
    }

    fn size_hint(&self) -> Option<usize> {
        self.list.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Strict(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Strict<A> {
    type Error = A::Error;
    type Variant = Strict<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        self.0.variant_seed(Strict(seed)).map(|(value, variant)| (value, Strict(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Strict(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Strict(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Strict(visitor))
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::payload::Payload;
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Part {
        name: Option<String>,
        size: i64,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Whole {
        part: Part,
        maybe: Option<Part>,
        parts: Vec<Part>,
        payload: Payload,
    }

    #[test]
    fn an_array_in_place_of_an_object_is_refused_at_any_depth() {
        for list in [
            r#"{"part":[null,1]}"#,
            r#"{"part":[]}"#,
            r#"{"maybe":[null,1]}"#,
            r#"{"parts":[[null,1]]}"#,
            r#"[{"name":null},null,[],1]"#,
        ] {
            let refused = crate::read::<Whole>(list).unwrap_err();
            assert!(refused.detail.contains("sequence"), "{list}: {}", refused.detail);
        }
    }

    #[test]
    fn a_wrong_type_is_named_in_plain_words_with_its_field() {
        for (json, field, words) in [
            (r#"{"part":{"size":1.5}}"#, "part.size", "expected a whole number"),
            (r#"{"part":{"size":"25usd"}}"#, "part.size", "expected a whole number"),
            (r#"{"parts":{}}"#, "parts", "expected a list"),
            (r#"{"part":[]}"#, "part", "expected an object"),
            (r#"{"part":{"name":7}}"#, "part.name", "expected a string"),
            (r#"{"parts":[{},{"name":7}]}"#, "parts[1].name", "expected a string"),
            (r#"{"parts":[{},7]}"#, "parts[1]", "expected an object"),
        ] {
            let refused = crate::read::<Whole>(json).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some(field), "{json}: {}", refused.detail);
            assert!(refused.detail.contains(words), "{json}: {}", refused.detail);
        }
    }

    #[test]
    fn objects_and_lists_are_parsed_as_usual() {
        let text = r#"{"part":{"name":"a","size":1},"maybe":{"size":2},"parts":[{"size":3},{}],"payload":[{"a":[1]}]}"#;
        let whole: Whole = crate::read(text).unwrap();
        assert_eq!(whole.part, Part { name: Some("a".into()), size: 1 });
        assert_eq!(whole.maybe, Some(Part { name: None, size: 2 }));
        assert_eq!(whole.parts, [Part { name: None, size: 3 }, Part::default()]);
        assert_eq!(whole.payload.as_str(), r#"[{"a":[1]}]"#);
        assert!(crate::read::<Whole>(r#"{} {}"#).is_err(), "a second value is accepted");
    }
}
