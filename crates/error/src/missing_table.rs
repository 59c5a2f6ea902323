//! The error that a table is not there. Who knows the catalog adds what there is instead.

use datafusion_common::DataFusionError;
use hypostyle_types::{Error, ErrorKind};
use std::fmt::{Display, Formatter};

/// A table that a statement names and that is not there, by its name as written.
#[derive(Debug)]
pub(crate) struct MissingTable(String);

impl Display for MissingTable {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "no table or view \"{}\"", self.0)
    }
}

impl std::error::Error for MissingTable {}

impl MissingTable {
    pub(crate) fn error(&self) -> Error {
        let last = self.0.rsplit('.').next().unwrap_or(&self.0);
        Error::new(ErrorKind::UnknownName, self.to_string()).about(last)
    }
}

/// Returns an error, at its place in the text, as the one that a table is not there.
pub fn of_missing_table(error: DataFusionError, name: String) -> DataFusionError {
    match error {
        DataFusionError::Context(context, inner) => {
            DataFusionError::Context(context, Box::new(of_missing_table(*inner, name)))
        }
        DataFusionError::Diagnostic(diagnostic, inner) => {
            DataFusionError::Diagnostic(diagnostic, Box::new(of_missing_table(*inner, name)))
        }
        _ => DataFusionError::External(Box::new(MissingTable(name))),
    }
}

/// Returns the name of the table that an error says is not there.
pub fn missing_table(error: &DataFusionError) -> Option<&str> {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => missing_table(inner),
        DataFusionError::External(inner) => {
            inner.downcast_ref::<MissingTable>().map(|missing| missing.0.as_str())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{missing_table, of_missing_table};
    use crate::from_datafusion;
    use datafusion_common::DataFusionError;
    use hypostyle_types::ErrorKind;

    #[test]
    fn a_missing_table_is_known_by_its_error() {
        let said = || DataFusionError::Plan("in other words".into()).context("while it was planned");
        assert_eq!(missing_table(&said()), None);
        let error = of_missing_table(said(), "s.t".into());
        assert_eq!(missing_table(&error), Some("s.t"));
        let error = from_datafusion(error);
        assert_eq!((error.kind(), error.message()), (ErrorKind::UnknownName, "no table or view \"s.t\""));
    }
}
