//! The items of SELECT: which columns COLUMNS(…) stands for, and which types somebody has declared.

pub mod declared;
pub(crate) mod named_columns;
