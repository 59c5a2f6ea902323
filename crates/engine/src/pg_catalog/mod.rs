//! `pg_catalog`: what PostgreSQL's programs ask a database about itself.

pub(crate) mod settings;
pub(crate) mod types;
