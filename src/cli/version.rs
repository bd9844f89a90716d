//! The output of `retake --version`: enough to identify the exact program in a bug report.

use std::sync::LazyLock;

use serde::Serialize;

use crate::store;

use super::ending::Exit;
use super::output::Output;

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

/// Prints the version.
pub(super) fn print(output: &mut Output) -> Exit {
    let view = VersionView { version: env!("CARGO_PKG_VERSION"), workspace_format: store::FORMAT_VERSION };
    output.answer(&view, |output, _| output.line(format_args!("retake {}", LONG.as_str())));
    Exit::Done
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionView {
    version: &'static str,
    workspace_format: u32,
}
