//! One struct per call, with its request, its answer and its implementation in one place.
//!
//! The owner of a workspace runs a call directly; a client sends the same struct, and the owner finds its handler by
//! name. Crates above this one add calls and background work through an [`Extension`], so that the log does not know
//! about them.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::log::Log;
use crate::store::{Error, Progress};

use super::connection::{decode, encode};
use super::owner::Owner;
use super::protocol::OwnerInfo;

/// A request to the log, run by this process or by the owner of the workspace.
pub trait Call: Serialize + DeserializeOwned {
    /// The name on the wire, unique among all calls.
    const NAME: &'static str;

    /// The result.
    type Answer: Serialize + DeserializeOwned;

    /// Runs the call in the process that owns the workspace.
    fn run(self, context: &CallContext<'_>) -> Result<Self::Answer, Error>;
}

/// The context of a call.
pub struct CallContext<'a> {
    pub(super) log: &'a dyn Log,
    pub(super) owner: &'a Owner,
    pub(super) progress: Option<&'a Progress>,
}

impl CallContext<'_> {
    /// Returns the log.
    pub fn log(&self) -> &dyn Log {
        self.log
    }

    /// Returns the callback that reports progress to the caller.
    pub fn progress(&self) -> Option<&Progress> {
        self.progress
    }

    /// Returns the extension of this type. Fails if the owner was started without it.
    pub fn extension<T: Extension>(&self) -> Result<&T, Error> {
        let found = self.owner.extensions().iter().find_map(|extension| {
            let extension: &dyn Any = &**extension;
            extension.downcast_ref::<T>()
        });
        found.ok_or(Error::Misuse("the process that owns the workspace does not offer this call".into()))
    }

    pub(super) fn owner_info(&self) -> OwnerInfo {
        self.owner.info()
    }
}

/// Additional functions of the owner of a workspace: further calls, and background work.
pub trait Extension: Any + Send + Sync {
    /// Adds its calls.
    fn register(&self, _calls: &mut Registry) {}

    /// Called for every acknowledged event with the log's state locked, so it must not block.
    fn acknowledged(&self) {}

    /// Runs on its own thread once this process owns the workspace, until [`stop`](Extension::stop) is called.
    fn run(&self, _log: &LogHandle) {}

    /// Makes [`run`](Extension::run) return soon.
    fn stop(&self) {}

    /// Called when the owner closes, after the last call.
    fn close(&self, _log: &dyn Log) {}
}

/// The calls that an owner supports.
#[derive(Default)]
pub struct Registry {
    handlers: HashMap<&'static str, Handler>,
}

type Handler = fn(&[u8], &CallContext<'_>) -> Result<Vec<u8>, Error>;

impl Registry {
    /// Adds a call.
    pub fn add<C: Call>(&mut self) {
        self.handlers.insert(C::NAME, handle::<C>);
    }

    /// Runs the call of this name, and returns its encoded answer. An unknown call or a request that cannot be decoded
    /// is an ordinary error, so that its sender gets a response.
    pub(super) fn run(&self, name: &str, body: &[u8], context: &CallContext<'_>) -> Result<Vec<u8>, Error> {
        match self.handlers.get(name) {
            Some(handler) => handler(body, context),
            None => Err(Error::Misuse(format!("the call {name:?} is unknown").into())),
        }
    }
}

fn handle<C: Call>(body: &[u8], context: &CallContext<'_>) -> Result<Vec<u8>, Error> {
    let call: C = decode(body)
        .map_err(|error| Error::Misuse(format!("the call {:?} cannot be decoded: {error}", C::NAME).into()))?;
    let answer = call.run(context)?;
    encode(&answer)
        .map_err(|error| Error::Misuse(format!("the answer to {:?} cannot be encoded: {error}", C::NAME).into()))
}

/// Access to the log for background work, without keeping open a workspace that is being closed.
pub struct LogHandle {
    pub(super) owner: Weak<Owner>,
}

impl LogHandle {
    /// Uses the log; `None` if this process no longer owns the workspace.
    pub fn with_log<T>(&self, work: impl FnOnce(&dyn Log) -> T) -> Option<T> {
        let owner: Arc<Owner> = self.owner.upgrade()?;
        owner.with_log(work)
    }
}
