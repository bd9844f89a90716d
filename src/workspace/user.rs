//! The user that this process runs as, for the audit trail.
//!
//! This is a claim, not a proof: `USER` can be set to anything, and so can the fields of a request.

use std::env;

use crate::platform::user_name;

/// Returns the user's name: from the environment, or else from the system, or else the user id. Empty if none is known.
pub(crate) fn current() -> String {
    let named = ["USER", "USERNAME", "LOGNAME"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|user| !user.trim().is_empty()));
    named.or_else(user_name).unwrap_or_default()
}
