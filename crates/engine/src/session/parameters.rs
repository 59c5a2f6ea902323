//! Values for the placeholders of a statement.

use datafusion::common::ScalarValue;

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
    /// Returns a UUID as a value of a statement: in plans UUIDs are text.
    pub fn uuid(bytes: [u8; 16]) -> ScalarValue {
        ScalarValue::Utf8(Some(uuid::Uuid::from_bytes(bytes).hyphenated().to_string()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Positional(values) => values.is_empty(),
            Self::Named(values) => values.is_empty(),
        }
    }
}
