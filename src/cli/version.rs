//! What `retake --version` prints: enough to know, from a bug report, exactly which program ran.

use std::sync::LazyLock;

use crate::store;

/// The version, the commit if it is known, the target, and the format of workspaces.
pub(super) static LONG: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}\ncommit: {}\ntarget: {}\nworkspace format: {} (and all earlier ones)",
        env!("CARGO_PKG_VERSION"),
        option_env!("RETAKE_BUILD_COMMIT").unwrap_or("unknown (development build)"),
        env!("RETAKE_BUILD_TARGET"),
        store::FORMAT_VERSION,
    )
});
