//! The `retake` command.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use retake::tracker::{Error, Options, Stay, Tracker};

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let workspace = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["mcp", "--workspace", workspace] => workspace.to_owned(),
        _ => return ExitCode::from(2),
    };
    match serve(Path::new(&workspace)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}: {:?}", error.causes);
            ExitCode::FAILURE
        }
    }
}

fn serve(workspace: &Path) -> Result<(), Error> {
    let tracker = Arc::new(Tracker::open(workspace, Options { stay: Stay::Long, ..Options::default() })?);
    retake::mcp::run(Arc::clone(&tracker), std::env::var("USER").unwrap_or_default())?;
    Arc::into_inner(tracker).map_or(Ok(()), Tracker::close)
}
