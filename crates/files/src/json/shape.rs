//! The types of the values of a JSON file, brought together value by value.

use crate::csv::Guess;
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use hypostyle_types::LogicalType;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Keys of a file, those in objects within others included.
pub const KEYS_MAX: usize = 16_384;

/// The type of all values seen at one place.
#[derive(Debug, Default)]
pub enum Shape {
    /// Only NULLs, or nothing.
    #[default]
    Null,
    Boolean,
    Integer,
    /// A whole number that BIGINT does not have.
    WideInteger,
    Number,
    Date,
    Timestamp {
        has_zone: bool,
    },
    /// Texts, or scalars of several types.
    Text,
    List(Box<Shape>),
    Object(Members),
    /// Values of several types, of which some have parts.
    Mixed,
}

/// The members of objects, in the order in which they came first.
#[derive(Debug, Default)]
pub struct Members {
    shapes: Vec<(String, Shape)>,
    places: HashMap<String, usize>,
}

impl Members {
    fn member(&mut self, name: String) -> &mut Shape {
        let place = *self.places.entry(name).or_insert_with_key(|name| {
            self.shapes.push((name.clone(), Shape::Null));
            self.shapes.len() - 1
        });
        &mut self.shapes[place].1
    }
}

impl Shape {
    /// Returns the columns, if all values are objects.
    pub fn columns(self) -> Option<Vec<Field>> {
        match self {
            Self::Object(members) => {
                Some(members.shapes.into_iter().map(|(name, shape)| shape.field(&name)).collect())
            }
            _ => None,
        }
    }

    /// Returns a field of this type. Where it is open, because there were only NULLs or empty
    /// lists, it is text.
    fn field(self, name: &str) -> Field {
        let of = |data_type: DataType| Field::new(name, data_type, true);
        match self {
            Self::Null | Self::Text => of(DataType::Utf8View),
            Self::Boolean => of(DataType::Boolean),
            Self::Integer => of(DataType::Int64),
            Self::WideInteger => of(DataType::Decimal128(38, 0)),
            Self::Number => of(DataType::Float64),
            Self::Date => of(DataType::Date32),
            Self::Timestamp { has_zone } => {
                of(DataType::Timestamp(TimeUnit::Microsecond, has_zone.then(|| Arc::from("UTC"))))
            }
            Self::List(element) => of(DataType::List(Arc::new(element.field("item")))),
            // A structure without members has no rows to count.
            Self::Object(members) if members.shapes.is_empty() => LogicalType::Json.arrow_field(name, true),
            Self::Object(members) => {
                let fields = members.shapes.into_iter().map(|(name, shape)| shape.field(&name));
                of(DataType::Struct(fields.collect::<Fields>()))
            }
            Self::Mixed => LogicalType::Json.arrow_field(name, true),
        }
    }

    /// Widens this to the type of a scalar.
    fn widen(&mut self, other: Self) {
        use Shape::{Date, Integer, Null, Number, Text, Timestamp, WideInteger};
        let old = std::mem::take(self);
        *self = match (old, other) {
            (Null, other) => other,
            (old @ (Self::List(_) | Self::Object(_) | Self::Mixed), Null) => old,
            (Self::List(_) | Self::Object(_) | Self::Mixed, _) => Self::Mixed,
            (old, Null) => old,
            (Self::Boolean, Self::Boolean) => Self::Boolean,
            (Integer, Integer) => Integer,
            (Integer | WideInteger, Integer | WideInteger) => WideInteger,
            (Integer | WideInteger | Number, Integer | WideInteger | Number) => Number,
            (Date, Date) => Date,
            (Date, moment @ Timestamp { .. }) | (moment @ Timestamp { .. }, Date) => moment,
            (Timestamp { has_zone: false }, Timestamp { has_zone: false }) => Timestamp { has_zone: false },
            (Timestamp { .. }, Timestamp { .. }) => Timestamp { has_zone: true },
            _ => Text,
        };
    }
}

/// Takes a value's type into a shape, and counts the keys that are new.
pub struct Seen<'a> {
    pub shape: &'a mut Shape,
    pub keys: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Seen<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seen<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.shape.widen(Shape::Null);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.shape.widen(Shape::Boolean);
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.shape.widen(Shape::Integer);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.shape.widen(if i64::try_from(value).is_ok() { Shape::Integer } else { Shape::WideInteger });
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.shape.widen(Shape::Number);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.shape.widen(match Guess::of_moment(text).data_type() {
            DataType::Date32 => Shape::Date,
            DataType::Timestamp(_, zone) => Shape::Timestamp { has_zone: zone.is_some() },
            _ => Shape::Text,
        });
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Self { shape, keys } = self;
        match shape {
            Shape::Null => *shape = Shape::List(Box::default()),
            Shape::List(_) => {}
            _ => *shape = Shape::Mixed,
        }
        let mut of_others = Shape::Null;
        let mut ignored = 0;
        let (shape, keys) = match shape {
            Shape::List(element) => (element.as_mut(), keys),
            _ => (&mut of_others, &mut ignored),
        };
        while elements.next_element_seed(Seen { shape: &mut *shape, keys: &mut *keys })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { shape, keys } = self;
        match shape {
            Shape::Null => *shape = Shape::Object(Members::default()),
            Shape::Object(_) => {}
            _ => *shape = Shape::Mixed,
        }
        let mut of_others = Members::default();
        let mut ignored = 0;
        let (known, keys) = match shape {
            Shape::Object(known) => (known, keys),
            _ => (&mut of_others, &mut ignored),
        };
        while let Some(name) = members.next_key::<String>()? {
            let before = known.shapes.len();
            let shape = known.member(name);
            members.next_value_seed(Seen { shape, keys: &mut *keys })?;
            *keys += known.shapes.len() - before;
            if *keys > KEYS_MAX {
                return Err(A::Error::custom(TOO_MANY));
            }
        }
        Ok(())
    }
}

/// The error of [`Seen`] for more than [`KEYS_MAX`] keys.
pub const TOO_MANY: &str = "too many keys";
