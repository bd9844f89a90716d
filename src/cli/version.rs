//! The output of `retake --version`: enough to identify the exact program in a bug report.

use std::sync::LazyLock;

use crate::store;

/// The version, the commit if known, the target, and the workspace format.
pub(super) static LONG: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}\ncommit: {}\ntarget: {}\nworkspace format: {} (and all earlier ones)",
        env!("CARGO_PKG_VERSION"),
        option_env!("RETAKE_BUILD_COMMIT").unwrap_or("unknown (development build)"),
        env!("RETAKE_BUILD_TARGET"),
        store::FORMAT_VERSION,
    )
});
