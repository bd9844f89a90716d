//! Renders recoveries for people: one sentence each, with the technical details folded away.

use maud::{Markup, html};

use crate::web::words;
use crate::wire::RecoveryNotice;
use crate::workspace::Recovery;

/// Renders the unread recovery reports at the top of a page.
pub(super) fn notice(recovery: Option<&RecoveryNotice>) -> Markup {
    html! {
        @if let Some(recovery) = recovery {
            section.notice role="status" {
                h2 { (sentence(recovery.lost_events)) }
                p.row {
                    a href="/workspace#recoveries" { "Details" }
                    button.quiet type="button" data-read="" hidden { "Mark as read" }
                }
            }
        }
    }
}

/// Returns a sentence on the extent of the damage.
pub(super) fn sentence(lost_events: u64) -> String {
    match lost_events {
        0 => "Damage was found and repaired. Nothing was lost.".to_owned(),
        lost => format!("Damage was found and repaired. {} could not be saved.", words::count(lost, "event")),
    }
}

/// Renders one recovery.
pub(super) fn report(recovery: &Recovery) -> Markup {
    let numbers = |them: &[u32]| them.iter().take(40).map(|it| format!("#{it}")).collect::<Vec<_>>().join(", ");
    html! {
        section.block {
            h3 { time datetime=(recovery.at) data-exact="" { (recovery.at) } }
            p { (sentence(recovery.lost_events)) @if recovery.restored_to_journal > 0 { " " (words::count(recovery.restored_to_journal, "event")) " came from the second copy." } }
            @for loss in &recovery.losses {
                p {
                    "Lost: "
                    @match loss.session {
                        Some(session) => a href={ "/sessions/" (session) "/audit" } { (session) },
                        None => "a session that is not known",
                    }
                    @if !loss.iterations.is_empty() { ", " (numbers(&loss.iterations)) }
                }
            }
            @if !recovery.quarantined.is_empty() {
                details { summary { "Quarantine: " (words::count(recovery.quarantined.len() as u64, "file")) } pre tabindex="0" { (recovery.quarantined.join("\n")) } }
            }
            details { summary { "Technical details" } p { (recovery.message) } @if !recovery.causes.is_empty() { pre tabindex="0" { (recovery.causes.join("\n")) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_a_sentence() {
        assert_eq!(sentence(0), "Damage was found and repaired. Nothing was lost.");
        assert_eq!(sentence(1), "Damage was found and repaired. 1 event could not be saved.");
    }
}
