//! The rows of values that are bound to the placeholders of a statement.

use crate::placeholder::Scanned;
use arrow::array::{Array, AsArray, RecordBatch, RecordBatchReader, new_null_array};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use hypostyle_engine::Parameters;
use hypostyle_types::{Error, LogicalType, Result};

/// Bound values, with a row for each execution.
pub(crate) struct BoundRows {
    reader: Box<dyn RecordBatchReader + Send>,
    /// The index of each parameter's column, and its name if it is bound by name.
    places: Vec<(usize, Option<String>)>,
    batch: Option<RecordBatch>,
    row: usize,
}

impl BoundRows {
    /// # Errors
    /// `InvalidInput` when a parameter that is bound by name has no column.
    pub fn new(reader: Box<dyn RecordBatchReader + Send>, scanned: &Scanned, by_name: bool) -> Result<Self> {
        let schema = reader.schema();
        let names = scanned.names();
        let name = |name: &String| scanned.has_names().then(|| name.clone());
        let places = if by_name {
            let place = |wanted: &String| {
                let found = schema.fields().iter().position(|field| field.name() == wanted);
                let place = found.ok_or_else(|| {
                    misuse(format!("no bound column has the name of the parameter \"{wanted}\""))
                });
                Ok((place?, name(wanted)))
            };
            names.iter().map(place).collect::<Result<_>>()?
        } else if scanned.has_names() {
            if names.len() != schema.fields().len() {
                return Err(misuse(format!(
                    "the statement has {} parameters, but {} columns are bound",
                    names.len(),
                    schema.fields().len()
                )));
            }
            names.iter().map(name).enumerate().collect()
        } else {
            // The database counts them, and reports what is wrong.
            (0..schema.fields().len()).map(|place| (place, None)).collect()
        };
        Ok(Self { reader, places, batch: None, row: 0 })
    }

    pub fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    /// Returns the number of values in a row.
    pub fn width(&self) -> usize {
        self.places.len()
    }

    /// Says whether there is another row.
    ///
    /// # Errors
    /// The errors of the stream that is bound.
    pub fn more(&mut self) -> Result<bool> {
        loop {
            if self.batch.as_ref().is_some_and(|batch| self.row < batch.num_rows()) {
                return Ok(true);
            }
            let Some(batch) = self.reader.next() else { return Ok(false) };
            let unreadable = |error| misuse(format!("the bound rows cannot be read: {error}"));
            self.batch = Some(batch.map_err(unreadable)?);
            self.row = 0;
        }
    }

    /// # Errors
    /// The errors of [`Self::more`].
    pub fn next(&mut self) -> Result<Option<Parameters>> {
        let more = self.more()?;
        let Some(batch) = self.batch.as_ref().filter(|_| more) else { return Ok(None) };
        self.row += 1;
        parameters(batch, self.row - 1, &self.places).map(Some)
    }

    /// Returns NULLs of the right types, for a use to which only the types matter.
    pub fn nulls(&self) -> Result<Parameters> {
        let nulls = RecordBatch::try_new(
            self.schema(),
            self.schema().fields().iter().map(|field| new_null_array(field.data_type(), 1)).collect(),
        );
        match nulls {
            Ok(batch) => parameters(&batch, 0, &self.places),
            // These are columns that are not nullable.
            Err(_) => Ok(Parameters::None),
        }
    }
}

fn parameters(batch: &RecordBatch, row: usize, places: &[(usize, Option<String>)]) -> Result<Parameters> {
    let value = |place: usize| -> Result<ScalarValue> {
        let column = batch.column(place);
        if let Some(uuids) = column.as_fixed_size_binary_opt()
            && LogicalType::from_arrow(batch.schema_ref().field(place))
                .is_ok_and(|of| of == LogicalType::Uuid)
            && uuids.is_valid(row)
            && let Ok(bytes) = uuids.value(row).try_into()
        {
            return Ok(Parameters::uuid(bytes));
        }
        let value = ScalarValue::try_from_array(column, row)
            .map_err(|error| Error::invalid_input(format!("parameter {}: {error}", place + 1)))?;
        Ok(match value {
            // The layout of the values in the program's memory does not concern the statement.
            ScalarValue::Dictionary(_, value) => *value,
            other => other,
        })
    };
    if places.iter().any(|(_, name)| name.is_some()) {
        let named = places.iter().map(|(place, name)| Ok((name.clone().unwrap_or_default(), value(*place)?)));
        return Ok(Parameters::Named(named.collect::<Result<_>>()?));
    }
    Ok(Parameters::Positional(places.iter().map(|(place, _)| value(*place)).collect::<Result<_>>()?))
}

/// Returns the error for a call that does not fit the statement.
pub(crate) fn misuse(message: impl Into<String>) -> Error {
    Error::invalid_input(message).with_sqlstate("HY024")
}
