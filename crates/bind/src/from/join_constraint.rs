//! The conditions of joins that may merge columns.

use datafusion::sql::sqlparser::ast::{JoinConstraint, JoinOperator};

/// The condition of a join operator, which is borrowed as the operator is.
macro_rules! constraint {
    ($operator:expr) => {
        match $operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) => Some(constraint),
            _ => None,
        }
    };
}

/// Returns the condition of a join, if it is one that may merge columns.
pub fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    constraint!(operator)
}

/// Returns the same to be changed.
pub fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    constraint!(operator)
}
