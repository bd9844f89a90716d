//! Auditing: the complete history of a session, and whether it verifies.

use std::collections::HashMap;
use std::io;

use crate::images::Images;
use crate::model::{Event, EventBody, Hash, IterationId, SessionId};
use crate::store::{Fault, Trail};

use super::{CallContext, Error, Workspace};

/// The events of a session, and the problems found.
#[derive(Debug)]
pub struct SessionTrail {
    /// Every event that can be read, oldest first.
    pub events: Vec<Event>,
    /// The problems found; empty if the chain holds in both copies.
    pub faults: Vec<Fault>,
    /// In a team workspace, the database role that wrote each event, by sequence number, as attested by PostgreSQL.
    pub roles: HashMap<u32, String>,
}

/// The result of verifying a session's images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageCheck {
    /// The number of images that were read and compared with their hash.
    pub checked: u64,
    /// Images whose file is missing.
    pub missing: Vec<(IterationId, Hash)>,
    /// Images whose file has other contents or cannot be read.
    pub damaged: Vec<(IterationId, Hash)>,
}

/// The state of an image in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageState {
    /// It exists and is unchanged.
    Whole,
    /// Its file is missing.
    Missing,
    /// Its file has other contents or cannot be read.
    Damaged,
}

impl Workspace {
    /// Returns the history of a session, and whether its chain holds.
    pub fn audit(&self, id: SessionId) -> Result<SessionTrail, Error> {
        self.head(id)?;
        let Trail { events, faults, .. } = self.log.trail(id)?;
        Ok(SessionTrail { events, faults, roles: self.roles(id)? })
    }

    #[cfg(feature = "team")]
    fn roles(&self, id: SessionId) -> Result<HashMap<u32, String>, Error> {
        Ok(self.team.as_ref().map(|team| team.roles(id)).transpose()?.unwrap_or_default())
    }

    #[cfg(not(feature = "team"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the form it has in a team workspace")]
    fn roles(&self, _id: SessionId) -> Result<HashMap<u32, String>, Error> {
        Ok(HashMap::new())
    }

    /// Reads every image of a trail and compares it with its hash.
    pub fn check_images(&self, trail: &SessionTrail, context: &CallContext) -> Result<ImageCheck, Error> {
        let mut check = ImageCheck::default();
        let mut seen = HashMap::new();
        let images = |event: &Event| match &event.body {
            EventBody::Recorded { iteration, .. } => iteration.images.len() as u64,
            _ => 0,
        };
        let (total, mut done) = (trail.events.iter().map(images).sum(), 0);
        for event in &trail.events {
            let EventBody::Recorded { index, iteration } = &event.body else { continue };
            for image in &iteration.images {
                context.step("checking images", done, total)?;
                done += 1;
                self.images.remember(image);
                let state = *seen.entry(image.hash).or_insert_with(|| ImageState::of(&self.images, image.hash));
                let faults = match state {
                    ImageState::Whole => continue,
                    ImageState::Missing => &mut check.missing,
                    ImageState::Damaged => &mut check.damaged,
                };
                faults.push((event.session.iteration(*index), image.hash));
            }
        }
        check.checked = seen.len() as u64;
        Ok(check)
    }
}

impl SessionTrail {
    /// Returns the sequence numbers of events that were lost to damage, in order.
    pub fn lost(&self) -> Vec<u32> {
        let losses = self.events.iter().filter_map(|event| match &event.body {
            EventBody::Lost(loss) => Some(&loss.seqs),
            _ => None,
        });
        let lost: std::collections::BTreeSet<u32> = losses.flatten().copied().collect();
        lost.into_iter().collect()
    }
}

impl ImageState {
    /// Determines the state by reading the whole file.
    pub(crate) fn of(images: &Images, hash: Hash) -> ImageState {
        match images.check(hash) {
            Ok(()) => ImageState::Whole,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ImageState::Missing,
            Err(_) => ImageState::Damaged,
        }
    }
}
