//! Reads `cluster.toml`, the configuration of a node (docs/cluster.md).

use hypostyle::{Error, Result};
use hypostyle_placement::config::Config;
use std::path::Path;

/// Reads and checks the configuration of a node. Its paths are as seen from here, not from the
/// directory of the file.
///
/// # Errors
/// `NotFound`, `Io`, and `InvalidInput` naming the line or the setting.
pub fn read(path: &Path) -> Result<Config> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::from_io(&error, format!("cannot read \"{shown}\"")))?;
    let mut config = Config::parse(&text).map_err(|error| error.context(format!("\"{shown}\"")))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let files =
        config.tls.iter_mut().flat_map(|tls| [&mut tls.certificate, &mut tls.key, &mut tls.authorities]);
    for file in files.chain(config.credentials.as_mut()) {
        *file = directory.join(&*file);
    }
    Ok(config)
}
