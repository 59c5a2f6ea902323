//! The error of a full disk, or of the limit for temporary files. It has become a text on its way here.

use crate::LIMIT_NAME;
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use hypostyle_types::{Error, ErrorKind};

/// Returns it, wherever it arose.
pub fn full_disk(error: &DataFusionError) -> Option<Error> {
    if !may_be_of_files(error) {
        return None;
    }
    let of_disk = |message| Some(Error::new(ErrorKind::DiskFull, message));
    match error.message() {
        said if said.contains(LIMIT_NAME) => of_disk(error.strip_backtrace()),
        said if is_of_full_disk(&said) => of_disk(format!(
            "cannot write a file, or a temporary one (temp_directory): {}; make room, and try again",
            error.strip_backtrace()
        )),
        _ => None,
    }
}

/// Says whether it is an error that writing a file may end with. Others quote names and values, whose texts
/// may be any. What is within another error is looked at by itself.
fn may_be_of_files(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => !inner.is::<Error>() && !inner.is::<DataFusionError>(),
            ArrowError::IoError(..) | ArrowError::IpcError(_) | ArrowError::ParquetError(_) => true,
            _ => false,
        },
        DataFusionError::IoError(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::ParquetError(_)
        | DataFusionError::Execution(_)
        | DataFusionError::ExecutionJoin(_)
        | DataFusionError::ResourcesExhausted(_)
        | DataFusionError::Internal(_) => true,
        _ => false,
    }
}

/// Says whether a message is of an error of Linux: a file system, a quota or the size of a file is
/// exhausted.
fn is_of_full_disk(message: &str) -> bool {
    const ENOSPC: &str = "(os error 28)";
    const EDQUOT: &str = "(os error 122)";
    const EFBIG: &str = "(os error 27)";
    [ENOSPC, EDQUOT, EFBIG].iter().any(|code| message.contains(code))
}

#[cfg(test)]
mod tests {
    use crate::from_datafusion;
    use arrow::error::ArrowError;
    use datafusion_common::DataFusionError;
    use hypostyle_types::ErrorKind;
    use std::io;

    #[test]
    fn errors_of_files_tell_of_full_disks_and_others_do_not() {
        let full = || io::Error::from_raw_os_error(28);
        for error in [
            DataFusionError::IoError(full()),
            DataFusionError::from(ArrowError::from(full())),
            DataFusionError::Execution(format!("a file: {}", full())).context("while rows were sorted"),
        ] {
            assert_eq!(from_datafusion(error).kind(), ErrorKind::DiskFull);
        }
        let quoted = "Cannot cast string '(os error 28)' to value of Int32 type";
        for error in [
            DataFusionError::Plan("column 'temp_directory_limit' is none".into()),
            DataFusionError::from(ArrowError::CastError(quoted.into())),
        ] {
            assert_ne!(from_datafusion(error).kind(), ErrorKind::DiskFull);
        }
    }
}
