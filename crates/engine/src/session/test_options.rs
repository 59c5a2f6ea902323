//! An engine's options in tests.

use super::EngineOptions;
use hypostyle_storage::Verify;

pub const OPTIONS: EngineOptions = EngineOptions {
    threads: 2,
    memory_limit: 1 << 30,
    query_memory_limit: None,
    temp_directory: None,
    temp_directory_limit: None,
    allow_network_filesystem: false,
    verify: Verify::Never,
};
