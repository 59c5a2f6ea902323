//! Why a pipeline gives no result.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

/// Why a pipeline ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The statement fails: it was interrupted, or what it reads is damaged.
    Error(DataFusionError),
    /// The operators that the pipeline stands for are to do the work: kernels lack a type,
    /// statistics were not exact, memory does not suffice, or an expression has failed, whose error
    /// is theirs to tell.
    Unfit(String),
    /// The values of a chunk's rows have too many bytes to be put together.
    Wide,
}

pub(super) type Stopped<T> = Result<T, Stop>;

impl Stop {
    /// Returns why a pipeline leaves its work to operators, for EXPLAIN ANALYZE.
    pub fn reason(&self) -> String {
        match self {
            Self::Error(error) => error.to_string(),
            Self::Unfit(reason) => reason.clone(),
            Self::Wide => "values are too long to be copied for each row".to_string(),
        }
    }

    /// Makes the error of an expression the operators' own.
    pub fn expression(error: DataFusionError) -> Self {
        Self::Unfit(error.to_string())
    }

    /// Makes the error of an arrow kernel the operators' own.
    pub fn arrow(error: ArrowError) -> Self {
        Self::Unfit(error.to_string())
    }
}

impl From<hypostyle_position::Error> for Stop {
    fn from(error: hypostyle_position::Error) -> Self {
        Self::Unfit(error.to_string())
    }
}

/// Passes on an error of stored data.
pub(super) fn storage(error: hypostyle_types::Error) -> Stop {
    Stop::Error(DataFusionError::External(Box::new(error)))
}

/// Passes on what is read of stored data, or its error.
pub(super) fn stored<T>(result: hypostyle_types::Result<T>) -> Stopped<T> {
    result.map_err(storage)
}
