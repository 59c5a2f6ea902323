//! What an error of another library was made from: an error of ours, of a file, or of a task. It is found by
//! its type, however many errors are around it, and never by its words.

use datafusion_common::DataFusionError;
use hypostyle_types::Error;
use std::error::Error as Cause;
use std::io;

/// Returns the outermost error of a type: an error itself, or one that it was made from.
pub fn find<'a, T: Cause + 'static>(error: &'a (dyn Cause + 'static)) -> Option<&'a T> {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(wanted) = found.downcast_ref::<T>() {
            return Some(wanted);
        }
        cause = inner(found);
    }
    None
}

/// Returns the error that one was made from.
fn inner<'a>(error: &'a (dyn Cause + 'static)) -> Option<&'a (dyn Cause + 'static)> {
    match error.downcast_ref::<io::Error>() {
        // The source of an error of a file is that of the error within it.
        Some(of_file) => of_file.get_ref().map(|inner| inner as &(dyn Cause + 'static)),
        None => error.source(),
    }
}

/// Returns an error of our own that an error was made from.
pub fn own<'a>(error: &'a (dyn Cause + 'static)) -> Option<&'a Error> {
    find(error)
}

/// Returns the error for a task that has panicked, if this is one.
pub fn panicked(error: &(dyn Cause + 'static)) -> Option<Error> {
    let task = find_as(DataFusionError::ExecutionJoin, error).filter(|task| task.is_panic())?;
    let said = task.to_string();
    // Before this stands the number of the task, which tells nobody anything.
    let with = said.split_once(" panicked").map_or("", |(_, with)| with);
    Some(Error::internal(format!("the query panicked{with}; please report it")))
}

/// Finds an error of the type that a variant of DataFusion's has, whose library is not ours to name.
fn find_as<'a, T: Cause + 'static>(
    _variant: fn(Box<T>) -> DataFusionError,
    error: &'a (dyn Cause + 'static),
) -> Option<&'a T> {
    find(error)
}

#[cfg(test)]
mod tests {
    use super::{find, own};
    use arrow::error::ArrowError;
    use datafusion_common::DataFusionError;
    use hypostyle_types::{Error, ErrorKind};
    use std::io;

    #[test]
    fn what_is_within_an_error_is_found_by_its_type() {
        let of_ours = || Error::new(ErrorKind::DiskFull, "there is no room");
        let of_file = || io::Error::new(io::ErrorKind::StorageFull, of_ours());
        for error in [
            DataFusionError::External(Box::new(of_ours())),
            DataFusionError::IoError(of_file()).context("while rows were sorted"),
            DataFusionError::from(ArrowError::from(of_file())),
            DataFusionError::from(ArrowError::ExternalError(Box::new(of_file()))),
        ] {
            assert_eq!(own(&error).map(Error::kind), Some(ErrorKind::DiskFull), "{error}");
        }
        let said = DataFusionError::Execution(of_ours().to_string());
        assert!(own(&said).is_none() && find::<io::Error>(&said).is_none());
    }
}
