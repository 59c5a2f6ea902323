//! What is known of values beyond their type in plans: that they are UUIDs or JSON, or have some within
//! them.

use arrow::datatypes::{DataType, Field, FieldRef};
use hypostyle_expr::said::{as_said, may_be_said_of};
use hypostyle_types::LogicalType;
use std::collections::HashMap;
use std::sync::Arc;

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is NULL, whatever it would be.
    Null,
    /// The field's type says all.
    Plain,
    /// A text of which the metadata says what it is.
    Said(HashMap<String, String>),
    /// A list of such elements.
    Elements(Box<Found>),
    /// A structure of such values.
    Fields(Vec<Found>),
    /// A map of such keys to such values.
    Entries(Box<(Found, Found)>),
}

impl Found {
    /// What the values of a field are, as it says itself.
    pub fn of_field(field: &Field) -> Self {
        match field.data_type() {
            DataType::Null => Self::Null,
            DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
                Self::of_field(of).listed()
            }
            DataType::Struct(fields) => {
                Self::of_fields(fields.iter().map(|field| Self::of_field(field)).collect())
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    Self::mapped(Self::of_field(&pair[0]), Self::of_field(&pair[1]))
                }
                _ => Self::Plain,
            },
            of if may_be_said_of(of) => match LogicalType::from_arrow(field) {
                Ok(LogicalType::Uuid | LogicalType::Json) => Self::Said(field.metadata().clone()),
                _ => Self::Plain,
            },
            _ => Self::Plain,
        }
    }

    /// What a value of a type is, whose plain field has its extension name.
    pub fn of_type(of: &LogicalType) -> Self {
        Self::of_field(&of.mark(Field::new("", DataType::Utf8View, true)))
    }

    /// Says whether a field need not say more.
    pub fn is_plain(&self) -> bool {
        match self {
            Self::Null | Self::Plain => true,
            Self::Elements(of) => of.is_plain(),
            Self::Fields(fields) => fields.iter().all(Self::is_plain),
            Self::Said(_) | Self::Entries(_) => false,
        }
    }

    /// What a list of such elements is.
    pub fn listed(self) -> Self {
        match self {
            Self::Null | Self::Plain => self,
            said => Self::Elements(Box::new(said)),
        }
    }

    /// What a map of such keys to such values is.
    pub fn mapped(key: Self, value: Self) -> Self {
        match key.is_plain() && value.is_plain() {
            true => Self::Plain,
            false => Self::Entries(Box::new((key, value))),
        }
    }

    /// What a structure of such values is.
    pub fn of_fields(fields: Vec<Self>) -> Self {
        let are_all = |of: &Self| fields.iter().all(|field| field == of);
        if are_all(&Self::Plain) {
            return Self::Plain;
        }
        if are_all(&Self::Null) { Self::Null } else { Self::Fields(fields) }
    }

    /// What is known of a value in another type of the same shape: where it is NULL.
    pub fn of_nulls(self) -> Self {
        match self {
            Self::Null => Self::Null,
            Self::Elements(of) => of.of_nulls().listed(),
            Self::Fields(fields) => Self::of_fields(fields.into_iter().map(Self::of_nulls).collect()),
            Self::Plain | Self::Said(_) | Self::Entries(_) => Self::Plain,
        }
    }

    /// What an element of such a list is.
    pub fn element(self) -> Self {
        match self {
            Self::Elements(of) => *of,
            Self::Null => Self::Null,
            _ => Self::Plain,
        }
    }

    /// What keys and values of such a map are.
    pub fn entry(self) -> (Self, Self) {
        match self {
            Self::Entries(of) => *of,
            _ => (Self::Plain, Self::Plain),
        }
    }

    /// What a value of such a structure is.
    pub fn field(self, place: usize) -> Self {
        match self {
            Self::Fields(mut fields) if place < fields.len() => fields.swap_remove(place),
            _ => Self::Plain,
        }
    }

    /// What is chosen from two values.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Null, one) | (one, Self::Null) => one,
            (Self::Elements(one), Self::Elements(other)) => one.or(*other).listed(),
            (Self::Entries(one), Self::Entries(other)) => Self::mapped(one.0.or(other.0), one.1.or(other.1)),
            (Self::Fields(one), Self::Fields(other)) if one.len() == other.len() => {
                Self::of_fields(one.into_iter().zip(other).map(|(one, other)| one.or(other)).collect())
            }
            // Of two notations of JSON, the one that is common to both is known.
            (Self::Said(one), Self::Said(other)) if one != other => {
                let common = one.into_iter().filter(|(key, value)| other.get(key) == Some(value));
                Self::of_field(&Field::new("", DataType::Utf8View, true).with_metadata(common.collect()))
            }
            (one, other) if one == other => one,
            _ => Self::Plain,
        }
    }

    /// What is chosen from several values.
    pub fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::Null, Self::or)
    }

    /// Returns a field that says so of its values, where it does not say anything else.
    pub fn said_of(&self, field: &Field) -> Field {
        let within = |field: &FieldRef, found: &Self| Arc::new(found.said_of(field));
        let data_type = match (self, field.data_type()) {
            (Self::Said(metadata), of) if may_be_said_of(of) && Self::of_field(field) == Self::Plain => {
                let said = Field::new("", DataType::Utf8View, true).with_metadata(metadata.clone());
                return as_said(&said, field);
            }
            (Self::Said(_), DataType::FixedSizeBinary(_)) => return as_said(field, field),
            (Self::Elements(found), DataType::List(of)) => DataType::List(within(of, found)),
            (Self::Elements(found), DataType::LargeList(of)) => DataType::LargeList(within(of, found)),
            (Self::Elements(found), DataType::FixedSizeList(of, size)) => {
                DataType::FixedSizeList(within(of, found), *size)
            }
            (Self::Fields(found), DataType::Struct(fields)) if found.len() == fields.len() => {
                DataType::Struct(
                    fields.iter().zip(found).map(|(field, found)| within(field, found)).collect(),
                )
            }
            (Self::Entries(found), DataType::Map(entries, is_sorted)) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    let pair = [within(&pair[0], &found.0), within(&pair[1], &found.1)];
                    let pair = DataType::Struct(pair.into_iter().collect());
                    DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(pair)), *is_sorted)
                }
                _ => return field.clone(),
            },
            _ => return field.clone(),
        };
        field.clone().with_data_type(data_type)
    }
}

/// Returns a field that says nothing of its values, nor of what is within them.
pub(super) fn stripped(field: &Field) -> Field {
    let part = |field: &FieldRef| Arc::new(stripped(field));
    let data_type = match field.data_type() {
        DataType::List(field) => DataType::List(part(field)),
        DataType::LargeList(field) => DataType::LargeList(part(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(part(field), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(part(entries), *is_sorted),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type).with_metadata(HashMap::new())
}

/// Returns a type that says nothing of what is within its lists, or of itself if it is `within` one.
pub(super) fn bare(of: &DataType, within: bool) -> DataType {
    let part = |field: &FieldRef, within: bool| {
        let of = bare(field.data_type(), within);
        let field = field.as_ref().clone().with_data_type(of);
        Arc::new(if within { field.with_metadata(HashMap::new()) } else { field })
    };
    match of {
        DataType::List(field) => DataType::List(part(field, true)),
        DataType::LargeList(field) => DataType::LargeList(part(field, true)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(part(field, true), *size),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| part(field, within)).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &LogicalType) -> Field {
        of.mark(Field::new("item", DataType::Utf8View, true))
    }

    fn list(of: Field) -> Field {
        Field::new("l", DataType::List(Arc::new(of)), true)
    }

    #[test]
    fn what_is_found_is_said_of_fields() {
        let plain = Field::new("item", DataType::Utf8View, true);
        for of in [LogicalType::Json, LogicalType::Uuid] {
            let found = Found::of_field(&list(text(&of)));
            assert_eq!(found.clone().element(), Found::of_type(&of));
            assert_eq!(found.said_of(&list(plain.clone())), list(text(&of)));
            assert_eq!(found.clone().or(Found::Null), found);
            assert_eq!(found.clone().or(Found::of_field(&list(plain.clone()))), Found::Plain);
            assert_eq!(found.said_of(&plain), plain);
        }
        let (uuid, json) = (Found::of_type(&LogicalType::Uuid), Found::of_type(&LogicalType::Json));
        assert_eq!(uuid.clone().or(json.clone()), Found::Plain);
        assert_eq!(uuid.said_of(&text(&LogicalType::Json)), text(&LogicalType::Json));
        assert_eq!(Found::mapped(uuid.clone(), json.clone()).entry(), (uuid, json));
    }

    #[test]
    fn fields_that_are_null_are_what_others_are() {
        let (uuid, json) = (Found::of_type(&LogicalType::Uuid), Found::of_type(&LogicalType::Json));
        let one = Found::of_fields(vec![uuid.clone(), Found::Null, Found::Plain]);
        let other = Found::of_fields(vec![Found::Null, json.clone(), Found::Plain]);
        let both = Found::Fields(vec![uuid, json, Found::Plain]);
        assert_eq!(one.clone().or(other.clone()), both);
        assert_eq!(one.clone().listed().or(other.clone().listed()), both.listed());
        assert_eq!(other.of_nulls(), Found::of_fields(vec![Found::Null, Found::Plain, Found::Plain]));
        assert!(one.clone().of_nulls().is_plain() && !one.is_plain());
        assert_eq!(Found::of_fields(vec![Found::Null, Found::Null]), Found::Null);
        assert_eq!(Found::of_fields(Vec::new()), Found::Plain);
    }

    #[test]
    fn bare_lists_say_nothing() {
        let plain = Field::new("item", DataType::Utf8View, true);
        let said = list(text(&LogicalType::Json));
        assert_eq!(bare(said.data_type(), false), *list(plain).data_type());
        let structure = DataType::Struct(vec![text(&LogicalType::Uuid)].into());
        assert_eq!(bare(&structure, false), structure);
    }
}
