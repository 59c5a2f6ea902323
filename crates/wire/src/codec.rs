//! How columns are encoded: what `SET result_codec` names (protocol.md §11).

use hypostyle_types::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// What this crate can undo, as `Hello.codecs` says it.
pub const COMPRESSIONS: u32 = 1 << NONE | 1 << LZ4 | 1 << ZSTD;

pub(crate) const NONE: u8 = 0;
pub(crate) const LZ4: u8 = 1;
pub(crate) const ZSTD: u8 = 2;

/// The level that `zstd` without a number stands for.
const ZSTD_LEVEL: i32 = 1;
const ZSTD_LEVEL_MAX: i32 = 19;

/// How columns are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// A choice by column and chunk, from what was measured.
    #[default]
    Auto,
    /// Plain, no compression.
    None,
    /// Encodings only.
    Light,
    /// Encodings, then LZ4.
    Lz4,
    /// Encodings, then Zstandard at a level.
    Zstd(i32),
}

impl FromStr for Codec {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let lower = name.trim().to_ascii_lowercase();
        match lower.as_str() {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            "light" => return Ok(Self::Light),
            "lz4" => return Ok(Self::Lz4),
            "zstd" => return Ok(Self::Zstd(ZSTD_LEVEL)),
            _ => {}
        }
        lower
            .strip_prefix("zstd:")
            .and_then(|level| level.parse().ok())
            .filter(|level| (1..=ZSTD_LEVEL_MAX).contains(level))
            .map(Self::Zstd)
            .ok_or_else(|| {
                Error::invalid_input(format!(
                    "\"{name}\" is not a codec: auto, none, light, lz4, zstd, or zstd:1 to zstd:{ZSTD_LEVEL_MAX}"
                ))
            })
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::None => formatter.write_str("none"),
            Self::Light => formatter.write_str("light"),
            Self::Lz4 => formatter.write_str("lz4"),
            Self::Zstd(ZSTD_LEVEL) => formatter.write_str("zstd"),
            Self::Zstd(level) => write!(formatter, "zstd:{level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_types::ErrorKind;

    #[test]
    fn names_come_back() {
        for name in ["auto", "none", "light", "lz4", "zstd", "zstd:7"] {
            assert_eq!(name.parse::<Codec>().unwrap().to_string(), name);
        }
        assert_eq!(" ZSTD:1".parse::<Codec>().unwrap(), Codec::Zstd(1));
        for wrong in ["", "gzip", "zstd:", "zstd:0", "zstd:20", "zstd:-1"] {
            let error = wrong.parse::<Codec>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.message().contains("light"), "{error}");
        }
    }
}
