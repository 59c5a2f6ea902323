//! The error of a full disk, or of the limit for temporary files, within those of whoever wrote a file.

use crate::cause;
use datafusion_common::DataFusionError;
use hypostyle_types::{Error, ErrorKind};
use std::io;

/// Returns it, wherever it arose.
pub fn full_disk(error: &DataFusionError) -> Option<Error> {
    if let Some(own) = cause::own(error) {
        // Another error of ours may quote one of a file.
        return (own.kind() == ErrorKind::DiskFull).then(|| own.clone());
    }
    let of_file: &io::Error = cause::find(error)?;
    let full = Error::from_io(of_file, "cannot write a file, or a temporary one (temp_directory)");
    (full.kind() == ErrorKind::DiskFull).then_some(full)
}

#[cfg(test)]
mod tests {
    use crate::from_datafusion;
    use arrow::error::ArrowError;
    use datafusion_common::DataFusionError;
    use hypostyle_types::{Error, ErrorKind};
    use std::io;

    #[test]
    fn errors_of_files_tell_of_full_disks_and_others_do_not() {
        for number in [28, 122, 27] {
            let full = || io::Error::from_raw_os_error(number);
            for error in [
                DataFusionError::IoError(full()),
                DataFusionError::from(ArrowError::from(full())),
                DataFusionError::External(Box::new(full())).context("while rows were sorted"),
            ] {
                assert_eq!(from_datafusion(error).kind(), ErrorKind::DiskFull, "{number}");
            }
        }
        let quoted = "Cannot cast string '(os error 28)' to value of Int32 type";
        for error in [
            DataFusionError::Plan("column 'temp_directory_limit' is none".into()),
            DataFusionError::Execution(format!("a file: {}", io::Error::from_raw_os_error(28))),
            DataFusionError::from(ArrowError::CastError(quoted.into())),
            DataFusionError::IoError(io::Error::from_raw_os_error(5)),
        ] {
            assert_ne!(from_datafusion(error).kind(), ErrorKind::DiskFull);
        }
    }

    #[test]
    fn what_our_own_files_say_is_kept() {
        let refused = Error::new(ErrorKind::DiskFull, "temporary files would take more; raise the limit");
        let of_file = io::Error::new(io::ErrorKind::StorageFull, refused.clone());
        let told = from_datafusion(DataFusionError::from(ArrowError::from(of_file)));
        assert_eq!((told.kind(), told.message()), (ErrorKind::DiskFull, refused.message()));
    }
}
