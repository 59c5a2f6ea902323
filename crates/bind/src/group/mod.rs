//! GROUP BY: the columns that a primary key among its keys decides.

pub mod group_keys;
