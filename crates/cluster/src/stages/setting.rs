//! The setting that says whether queries run in stages.

use hypostyle_expr::setting::Choice;
use hypostyle_types::Error;
use std::fmt;
use std::str::FromStr;

/// Whether queries whose rows have to move between nodes run in stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InStages {
    /// Rows that have to meet come to the node that was asked.
    Off,
    /// Those that would bring many bytes to it do.
    #[default]
    Auto,
    /// All that can do.
    On,
}

impl fmt::Display for InStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::On => "on",
        })
    }
}

impl FromStr for InStages {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "off" | "false" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "on" | "true" => Ok(Self::On),
            _ => Err(Error::invalid_input(format!("stages is auto, on or off, not '{text}'"))),
        }
    }
}

impl Choice for InStages {
    const PREFIX: &'static str = "hypostyle_stages";
    const NAME: &'static str = "stages";
    const DESCRIPTION: &'static str = "Whether queries over a cluster run in stages: auto, on or off";
}
