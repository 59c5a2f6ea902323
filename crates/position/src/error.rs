//! What a kernel refuses.

use arrow_schema::{ArrowError, DataType};

/// Why a kernel gave no result. None of these depends on the rows' order or on the number of
/// threads.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no loop for the type; the caller uses another operator.
    #[error("{kernel} does not take values of type {data_type}")]
    UnsupportedType {
        /// The kernel that was asked.
        kernel: &'static str,
        /// The type that it was asked for.
        data_type: DataType,
    },
    /// Two inputs should have one type, and do not.
    #[error("{left} cannot be compared with {right}: cast one of them")]
    TypeMismatch {
        /// The type of the first input.
        left: DataType,
        /// The type of the second one.
        right: DataType,
    },
    /// A position points behind the rows of its column.
    #[error("position {position} is not among the {rows} rows of the column")]
    PositionOutOfRange {
        /// The greatest position that was given.
        position: u32,
        /// The rows that there are.
        rows: usize,
    },
    /// A value lies outside of the domain that a grouping was made for.
    #[error("a key lies outside of the domain that its statistics gave")]
    OutsideDomain,
    /// A result does not fit into its type.
    #[error("a sum does not fit into {0}")]
    Overflow(DataType),
    /// There are more rows or groups than positions can name.
    #[error("{0} are more than 32-bit positions can name")]
    TooMany(&'static str),
    /// The inputs do not go together; this is a defect of the caller.
    #[error("the inputs of {kernel} do not go together: {reason}")]
    Inputs {
        /// The kernel that was asked.
        kernel: &'static str,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// The caller has ended the work.
    #[error("the work was ended")]
    Ended,
    /// An array could not be made.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// The result of a kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;
