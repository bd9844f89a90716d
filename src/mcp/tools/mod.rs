//! The tools, one a file. Each is a verb of the tracker in the words an agent chooses it by.

mod annotate_iteration;
mod archive_session;
mod audit_session;
mod compare_iterations;
mod get_iteration;
mod list_iterations;
mod list_sessions;
mod record_iteration;
mod restore_session;
mod resume_session;
mod search_iterations;

use std::sync::LazyLock;

pub(crate) use super::tool::{Call, Entry};

/// All tools, by name. Always in this order, so that clients can cache what they make of the list.
pub(crate) fn all() -> &'static [Entry] {
    static ALL: LazyLock<[Entry; 11]> = LazyLock::new(|| {
        [
            Entry::of::<annotate_iteration::AnnotateIteration>(),
            Entry::of::<archive_session::ArchiveSession>(),
            Entry::of::<audit_session::AuditSession>(),
            Entry::of::<compare_iterations::CompareIterations>(),
            Entry::of::<get_iteration::GetIteration>(),
            Entry::of::<list_iterations::ListIterations>(),
            Entry::of::<list_sessions::ListSessions>(),
            Entry::of::<record_iteration::RecordIteration>(),
            Entry::of::<restore_session::RestoreSession>(),
            Entry::of::<resume_session::ResumeSession>(),
            Entry::of::<search_iterations::SearchIterations>(),
        ]
    });
    &*ALL
}

/// The tool of that name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    all().iter().find(|entry| entry.definition.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_in_the_order_of_their_names() {
        assert!(all().iter().map(|entry| &entry.definition.name).is_sorted());
    }
}
