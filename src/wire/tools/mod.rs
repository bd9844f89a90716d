//! The tool registry, one tool per file.

mod annotate_iteration;
mod archive_session;
mod audit_session;
mod compare_iterations;
mod get_iteration;
mod list_iterations;
mod list_projects;
mod list_sessions;
mod record_iteration;
mod restore_session;
mod resume_session;
mod search_iterations;
mod thumbnails;
mod update_session;

use std::sync::LazyLock;

use super::tool::ToolEntry;

/// The maximum size of an image sent as a resource: below 700 kB as base64, which clients with low limits still accept.
pub(crate) const MAX_RESOURCE_BYTES: u64 = 520_000;

/// The page that displays a comparison or a story in clients that support MCP Apps.
pub(crate) const APP_VIEW: &str = "ui://retake/app.html";

/// Returns all tools, ordered by name, so that clients can cache the list.
pub(crate) fn all() -> &'static [ToolEntry] {
    static ALL: LazyLock<[ToolEntry; 13]> = LazyLock::new(|| {
        [
            ToolEntry::of::<annotate_iteration::AnnotateIteration>(),
            ToolEntry::of::<archive_session::ArchiveSession>(),
            ToolEntry::of::<audit_session::AuditSession>(),
            ToolEntry::of::<compare_iterations::CompareIterations>(),
            ToolEntry::of::<get_iteration::GetIteration>(),
            ToolEntry::of::<list_iterations::ListIterations>(),
            ToolEntry::of::<list_projects::ListProjects>(),
            ToolEntry::of::<list_sessions::ListSessions>(),
            ToolEntry::of::<record_iteration::RecordIteration>(),
            ToolEntry::of::<restore_session::RestoreSession>(),
            ToolEntry::of::<resume_session::ResumeSession>(),
            ToolEntry::of::<search_iterations::SearchIterations>(),
            ToolEntry::of::<update_session::UpdateSession>(),
        ]
    });
    &*ALL
}

/// Returns the tool of this name.
pub(crate) fn find(name: &str) -> Option<&'static ToolEntry> {
    all().iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_in_the_order_of_their_names() {
        assert!(all().iter().map(|entry| entry.name).is_sorted());
    }
}
