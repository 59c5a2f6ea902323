//! The keys of objects that a table has columns and fields for. Others would be lost without a
//! word, so records that have some are not read.

use super::values;
use arrow::datatypes::{DataType, Field, Schema};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

/// What is known of the values at one place.
#[derive(Debug)]
pub enum Known {
    /// All of a value is read.
    Whole,
    List(Box<Known>),
    Object(HashMap<String, Known>),
}

static WHOLE: Known = Known::Whole;

/// What a check of a record's keys has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Checked {
    /// The record is JSON, and all of its keys are known.
    Json,
    /// The first key that is not known, with those of the objects around it.
    Unknown(String),
    /// The record is no JSON, or has a number that the parser does not take.
    Other,
}

impl Known {
    /// Returns the keys of a table's objects. Columns whose types are given have all that those ask
    /// for.
    pub fn of_table(schema: &Schema, given: impl Fn(&str) -> bool) -> Self {
        let member = |field: &Field| {
            let known = if given(field.name()) { Self::Whole } else { Self::of(field.data_type()) };
            (field.name().clone(), known)
        };
        Self::Object(schema.fields().iter().map(|field| member(field)).collect())
    }

    fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
                match Self::of(element.data_type()) {
                    Self::Whole => Self::Whole,
                    known => Self::List(Box::new(known)),
                }
            }
            DataType::Struct(fields) => {
                let members = fields.iter().map(|field| (field.name().clone(), Self::of(field.data_type())));
                Self::Object(members.collect())
            }
            _ => Self::Whole,
        }
    }

    /// Returns the first key of some records that is not known, with those of the objects around
    /// it; `None` also where they are no JSON.
    pub fn unknown(&self, records: &[u8]) -> Option<String> {
        values(records).into_iter().find_map(|record| match self.check(&records[record]) {
            Checked::Unknown(key) => Some(key),
            Checked::Json | Checked::Other => None,
        })
    }

    /// Looks for the first key of a record that is not known.
    pub fn check(&self, record: &[u8]) -> Checked {
        let unknown = RefCell::new(None);
        let check = Check { known: self, step: None, unknown: &unknown };
        let mut record = serde_json::Deserializer::from_slice(record);
        let is_json = check.deserialize(&mut record).and_then(|()| record.end()).is_ok();
        match unknown.into_inner() {
            Some(key) => Checked::Unknown(key),
            None if is_json => Checked::Json,
            None => Checked::Other,
        }
    }
}

/// A key on the way to a value.
struct Step<'a> {
    parent: Option<&'a Step<'a>>,
    key: &'a str,
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}.")?;
        }
        f.write_str(self.key)
    }
}

#[derive(Clone, Copy)]
struct Check<'a> {
    known: &'a Known,
    step: Option<&'a Step<'a>>,
    unknown: &'a RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.known {
            Known::Whole => deserializer.deserialize_ignored_any(IgnoredAny).map(drop),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Check<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let known = if let Known::List(known) = self.known { known.as_ref() } else { &WHOLE };
        while elements.next_element_seed(Check { known, ..self })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Known::Object(known) = self.known else {
            while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        while let Some(key) = members.next_key::<String>()? {
            let step = Step { parent: self.step, key: &key };
            let Some(known) = known.get(&key) else {
                *self.unknown.borrow_mut() = Some(step.to_string());
                return Err(A::Error::custom("an unknown key"));
            };
            members.next_value_seed(Check { known, step: Some(&step), unknown: self.unknown })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Fields;

    #[test]
    fn keys_that_are_not_known_are_named_wherever_they_are() {
        let inner = DataType::Struct(Fields::from(vec![Field::new("x", DataType::Int64, true)]));
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("o", inner.clone(), true),
            Field::new("l", DataType::List(Field::new("item", inner, true).into()), true),
            Field::new("j", DataType::Utf8View, true),
        ]);
        let known = Known::of_table(&schema, |_| false);
        let unknown = |text: &str| known.unknown(text.as_bytes());
        assert_eq!(unknown("{\"a\":1,\"o\":{\"x\":2},\"l\":[{\"x\":1},null],\"j\":{\"any\":1}}\n{}\n"), None);
        assert_eq!(unknown("{\"a\":1}\n{\"a\":1,\"b\":2}").as_deref(), Some("b"));
        assert_eq!(unknown("{\"o\":{\"x\":1,\"y\":2}}").as_deref(), Some("o.y"));
        assert_eq!(unknown("{\"l\":[{\"x\":1},{\"z\":1}]}").as_deref(), Some("l.z"));
        assert_eq!(unknown("{\"a\":"), None);
        assert_eq!(unknown("{\"o\":1e400}\n{\"a\":1e400,\"b\":2}").as_deref(), Some("b"));
        assert_eq!(known.check(b"{\"a\":1,\"j\":[1e400]}"), Checked::Json);
        for other in ["{\"a\":1", "{\"a\":1},", "{\"o\":1e400}", "{\"j\":01}", ""] {
            assert_eq!(known.check(other.as_bytes()), Checked::Other, "{other}");
        }
    }

    #[test]
    fn each_record_is_looked_at_once() {
        let known = Known::of_table(&Schema::new(vec![Field::new("a", DataType::Int64, true)]), |_| false);
        let records = "{\"a\":1}\n".repeat(400_000);
        let start = std::time::Instant::now();
        assert_eq!(known.unknown(records.as_bytes()), None);
        // Reading all lines before each record takes minutes.
        assert!(start.elapsed() < std::time::Duration::from_secs(20));
    }
}
