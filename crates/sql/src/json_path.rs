//! The functions of `#>` and `#>>`.

pub const JSON: &str = "json_at_path";
pub const TEXT: &str = "json_text_at_path";
