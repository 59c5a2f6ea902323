//! Settings of ours among DataFusion's options.

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};
use std::any::Any;
use std::fmt::{Debug, Display};
use std::str::FromStr;

/// What a session can choose, as SET and SHOW write it.
pub trait Choice:
    Clone + Default + Debug + Display + FromStr<Err = hypostyle_types::Error> + Send + Sync + 'static
{
    /// The first part of DataFusion's name for it, which no other choice has.
    const PREFIX: &'static str;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
}

/// A choice as one of DataFusion's options.
#[derive(Clone, Debug, Default)]
pub struct Setting<C>(pub C);

impl<C: Choice> Setting<C> {
    /// Returns what was chosen; `None` where the options are not those of a session.
    pub fn of(options: &ConfigOptions) -> Option<&C> {
        options.extensions.get::<Self>().map(|setting| &setting.0)
    }
}

impl<C: Choice> ConfigExtension for Setting<C> {
    const PREFIX: &'static str = C::PREFIX;
}

impl<C: Choice> ExtensionOptions for Setting<C> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, _: &str, value: &str) -> Result<()> {
        self.0 = value.parse().map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![ConfigEntry {
            key: format!("{}.{}", C::PREFIX, C::NAME),
            value: Some(self.0.to_string()),
            description: C::DESCRIPTION,
        }]
    }
}
