//! `retake demo`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use crate::model::Timestamp;
use crate::web::{self, GalleryLock};
use crate::wire::{Error, ErrorKind};
use crate::workspace::{Lifetime, Options, Workspace};

use super::args::Json;
use super::context::Context;
use super::exit::{Exit, Failure};
use super::serve::ListenArgs;
use super::signals;

/// Show Retake with a week of sample work in a temporary workspace
///
/// The images are painted by Retake itself: nothing is downloaded, and your own work is not touched.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  retake demo --open\n  retake demo --keep sample")]
pub(super) struct DemoArgs {
    /// Keep the sample in this directory, to continue with it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    at: ListenArgs,
    #[command(flatten)]
    pub(super) json: Json,
}

/// The default address of the demo, next to that of the gallery.
const USUAL: &str = "127.0.0.1:7374";

impl DemoArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let address = self.at.address(USUAL)?;
        let passing = std::env::temp_dir().join(format!("retake-demo-{}", std::process::id()));
        let dir = self.keep.clone().unwrap_or_else(|| passing.clone());
        // Ctrl-C while the sample is being created must not leave it behind.
        let stop = Arc::new(AtomicBool::new(false));
        signals::set_on(&stop);
        let served = self.show(&dir, address, &stop, context);
        if self.keep.is_none()
            && let Err(error) = fs::remove_dir_all(&passing)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            context.output.warn(format_args!("the sample was not removed: {}: {error}", passing.display()));
        }
        served
    }

    fn show(
        &self,
        dir: &Path,
        address: std::net::SocketAddr,
        stop: &AtomicBool,
        context: &mut Context,
    ) -> Result<Exit, Failure> {
        let now = Timestamp::now();
        let progress = context.output.bar().mover();
        let filled = fs::create_dir_all(dir)
            .map_err(|error| {
                let hint = "choose another directory with --keep";
                Error::new(ErrorKind::Internal, format!("cannot make the sample's directory: {}", dir.display()), hint)
                    .caused_by(error)
            })
            .and_then(|()| Ok(web::fill(dir, now, Some(progress), stop)?));
        context.output.bar().clear();
        filled?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::Done);
        }
        let workspace = Workspace::open_with(dir, Options { lifetime: Lifetime::LongRunning, ..Options::default() })?;
        match GalleryLock::take(dir)? {
            GalleryLock::Taken(served) => {
                context.close(workspace);
                self.at.show_served(&served, address, &mut context.output)
            }
            GalleryLock::Free(held) => self.at.serve(workspace, &held, address, context),
        }
    }
}
