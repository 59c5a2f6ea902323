//! Values for the placeholders of a statement.

use arrow::datatypes::DataType;
use datafusion::common::metadata::{FieldMetadata, ScalarAndMetadata};
use datafusion::common::{ParamValues, ScalarValue};
use hypostyle_types::LogicalType;

/// The bytes of a UUID.
const UUID_BYTES: i32 = 16;

/// The keys of the dictionary that a JSON value is given as: no other value of a statement is one.
const JSON_KEYS: DataType = DataType::UInt64;

/// Values for the placeholders of a statement.
#[derive(Clone, Debug, Default)]
pub enum Parameters {
    #[default]
    None,
    /// Values for `?` and `$1`.
    Positional(Vec<ScalarValue>),
    /// Values for `$name`.
    Named(Vec<(String, ScalarValue)>),
}

impl Parameters {
    /// Returns a UUID as a value of a statement.
    pub fn uuid(bytes: [u8; 16]) -> ScalarValue {
        ScalarValue::FixedSizeBinary(UUID_BYTES, Some(bytes.to_vec()))
    }

    /// Returns a text as a JSON value of a statement, which a text alone would not be.
    pub fn json(text: Option<&str>) -> ScalarValue {
        let text = ScalarValue::LargeUtf8(text.map(str::to_string));
        ScalarValue::Dictionary(Box::new(JSON_KEYS), Box::new(text))
    }

    /// Returns the type of such values.
    pub fn json_type() -> DataType {
        DataType::Dictionary(Box::new(JSON_KEYS), Box::new(DataType::LargeUtf8))
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Positional(values) => values.is_empty(),
            Self::Named(values) => values.is_empty(),
        }
    }

    /// Returns the value of a placeholder by what is written for it: `$1` or `$name`.
    pub(crate) fn value(&self, mark: &str) -> Option<&ScalarValue> {
        let name = mark.strip_prefix('$')?;
        match self {
            Self::None => None,
            Self::Positional(values) => values.get(name.parse::<usize>().ok()?.checked_sub(1)?),
            Self::Named(values) => values.iter().find(|(known, _)| known == name).map(|(_, value)| value),
        }
    }

    /// Returns the values as plans have them.
    pub(crate) fn planned(&self) -> Option<ParamValues> {
        match self {
            Self::None => None,
            Self::Positional(values) => Some(ParamValues::List(values.iter().map(planned).collect())),
            Self::Named(values) => {
                let values = values.iter().map(|(name, value)| (name.clone(), planned(value)));
                Some(ParamValues::Map(values.collect()))
            }
        }
    }
}

/// Returns a value as plans have it: a UUID is text there, with a mark that it is one. So is JSON,
/// and the statement casts it.
pub(crate) fn planned(value: &ScalarValue) -> ScalarAndMetadata {
    match value {
        ScalarValue::FixedSizeBinary(UUID_BYTES, _) => {
            let field = LogicalType::Uuid.arrow_field("", true);
            let text = as_text(value).unwrap_or(ScalarValue::Utf8View(None));
            ScalarAndMetadata::new(text, Some(FieldMetadata::new_from_field(&field)))
        }
        other => match json_text(other) {
            Some(text) => ScalarAndMetadata::from(ScalarValue::LargeUtf8(text.clone())),
            None => ScalarAndMetadata::from(other.clone()),
        },
    }
}

/// Returns the text of a JSON value, or its NULL; `None` for any other value.
fn json_text(value: &ScalarValue) -> Option<&Option<String>> {
    let ScalarValue::Dictionary(keys, text) = value else { return None };
    match text.as_ref() {
        ScalarValue::LargeUtf8(text) if **keys == JSON_KEYS => Some(text),
        _ => None,
    }
}

/// Returns the text of a UUID and of JSON; `None` for any other value.
pub(crate) fn as_text(value: &ScalarValue) -> Option<ScalarValue> {
    if let Some(text) = json_text(value) {
        return Some(ScalarValue::Utf8View(text.clone()));
    }
    let ScalarValue::FixedSizeBinary(UUID_BYTES, bytes) = value else { return None };
    let text = |bytes: &Vec<u8>| {
        uuid::Uuid::from_slice(bytes).map(|uuid| uuid.hyphenated().to_string()).unwrap_or_default()
    };
    Some(ScalarValue::Utf8View(bytes.as_ref().map(text)))
}
