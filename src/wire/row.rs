//! The row of a session. It can only be created from a [`Summary`] or from its own JSON, and both check the index rule,
//! so that an invalid row cannot exist.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::iteration::MAX_NAME_BYTES;
use crate::model::{Cost, SessionId, Summary, Timestamp};

use super::limits;
use super::{Error, ErrorKind};

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// The session's id, to be passed as `sessionId` or inside a reference.
    id: SessionId,
    /// When its first iteration was made (UTC).
    created_at: Timestamp,
    /// When its latest iteration was made or annotated (UTC).
    last_modified_at: Timestamp,
    /// The number of recorded iterations, at least 1.
    iteration_count: u32,
    /// The index of the last iteration: always `iterationCount - 1`.
    current_iteration_index: u32,
    /// Its title, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Its project, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// Present and true if the session is archived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
    /// What its iterations cost together, by currency, if that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cost: Vec<Cost>,
    /// The number of its events that are lost to damage, for as long as they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    lost_events: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl SessionRow {
    /// Creates the row of a session.
    pub fn new(summary: &Summary) -> Result<SessionRow, Error> {
        SessionRow {
            id: summary.id,
            created_at: summary.created_at,
            last_modified_at: summary.last_modified_at,
            iteration_count: summary.iteration_count(),
            current_iteration_index: summary.current_iteration_index(),
            title: summary.title.as_deref().map(shown),
            project: summary.project.as_deref().map(shown),
            archived: summary.archived,
            cost: Vec::new(),
            lost_events: 0,
        }
        .checked()
    }

    /// Adds the cost of the session.
    #[must_use]
    pub fn with_cost(self, cost: Vec<Cost>) -> SessionRow {
        SessionRow { cost, ..self }
    }

    /// Adds how many of its events are lost.
    #[must_use]
    pub fn with_losses(self, lost_events: u64) -> SessionRow {
        SessionRow { lost_events, ..self }
    }

    /// Returns the number of its events that are lost to damage.
    pub fn lost_events(&self) -> u64 {
        self.lost_events
    }

    /// Returns what its iterations cost together, by currency.
    pub fn cost(&self) -> &[Cost] {
        &self.cost
    }

    /// Returns the session's id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Returns when its first iteration was made.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Returns when its latest iteration was made or annotated.
    pub fn last_modified_at(&self) -> Timestamp {
        self.last_modified_at
    }

    /// Returns the number of recorded iterations.
    pub fn iteration_count(&self) -> u32 {
        self.iteration_count
    }

    /// Returns the index of the last iteration.
    pub fn current_iteration_index(&self) -> u32 {
        self.current_iteration_index
    }

    /// Returns its title.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns its project.
    pub fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// Returns whether it is archived.
    pub fn archived(&self) -> bool {
        self.archived
    }

    fn checked(self) -> Result<SessionRow, Error> {
        if self.iteration_count.checked_sub(1) == Some(self.current_iteration_index) {
            return Ok(self);
        }
        Err(Error::new(
            ErrorKind::Damaged,
            format!(
                "{} has {} iterations but a current index of {}",
                self.id, self.iteration_count, self.current_iteration_index
            ),
            "run `retake verify`, then `retake repair`",
        ))
    }
}

impl<'de> Deserialize<'de> for SessionRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SessionRow, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Unchecked {
            id: SessionId,
            created_at: Timestamp,
            last_modified_at: Timestamp,
            iteration_count: u32,
            current_iteration_index: u32,
            title: Option<String>,
            project: Option<String>,
            #[serde(default)]
            archived: bool,
            #[serde(default)]
            cost: Vec<Cost>,
            #[serde(default)]
            lost_events: u64,
        }
        let row = Unchecked::deserialize(deserializer)?;
        SessionRow {
            id: row.id,
            created_at: row.created_at,
            last_modified_at: row.last_modified_at,
            iteration_count: row.iteration_count,
            current_iteration_index: row.current_iteration_index,
            title: row.title,
            project: row.project,
            archived: row.archived,
            cost: row.cost,
            lost_events: row.lost_events,
        }
        .checked()
        .map_err(serde::de::Error::custom)
    }
}

/// Truncates a name. Recorded names are short enough, but imported ones may not be.
fn shown(name: &str) -> String {
    limits::clipped(name, 2 * MAX_NAME_BYTES).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_breaks_the_index_rule_cannot_be_read() {
        let row = |count: u32, index: u32| {
            serde_json::from_value::<SessionRow>(serde_json::json!({
                "id": "session-2025-12-11-001",
                "createdAt": "2025-12-11T10:15:30.123Z",
                "lastModifiedAt": "2025-12-11T14:45:22.456Z",
                "iterationCount": count,
                "currentIterationIndex": index,
            }))
        };
        for (count, index) in [(0, 0), (12, 12), (12, 10), (0, u32::MAX)] {
            let error = row(count, index).unwrap_err().to_string();
            assert!(error.contains("session-2025-12-11-001"), "{error}");
        }
        let whole = row(12, 11).unwrap();
        assert_eq!(
            serde_json::to_string(&whole).unwrap(),
            r#"{"id":"session-2025-12-11-001","createdAt":"2025-12-11T10:15:30.123Z","lastModifiedAt":"2025-12-11T14:45:22.456Z","iterationCount":12,"currentIterationIndex":11}"#
        );
    }
}
