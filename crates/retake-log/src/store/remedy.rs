//! What users can do about an error of the server that stores a log, as a value that each face words.

use serde::{Deserialize, Serialize};

/// What to do about an error of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remedy {
    /// Check the network and the server, then retry.
    CheckServer,
    /// Check the role and its password.
    CheckCredentials,
    /// Create the workspace in the database.
    CreateWorkspace,
    /// Migrate the schema to this version.
    UpgradeSchema,
    /// Migrate the schema as its owner, after it was restored from a dump.
    UpgradeRestoredSchema,
    /// Install the version of Retake that wrote the schema.
    UpdateRetake,
    /// Connect without a transaction pooler.
    AvoidTransactionPooler,
    /// Verify the workspace, and restore the damaged record from a backup.
    RestoreRecord,
    /// Repeat the call.
    Retry,
}
