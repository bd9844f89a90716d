//! The text of a recovery's report.

use crate::model::EventBody;

use super::SessionLoss;
use super::record::Record;

/// The maximum number of losses and positions listed in a message.
const MAX_LISTED: usize = 20;

/// Words the findings and actions of a recovery.
pub(super) fn message(
    causes: &[String],
    lost: u64,
    losses: &[SessionLoss],
    restored: u64,
    contradicting: u64,
) -> String {
    let mut message = format!("Damage was found ({}).", causes.join("; "));
    if restored > 0 {
        message += &format!(" {} put back into the journal from another copy.", were(restored));
    }
    if contradicting > 0 {
        message += &match contradicting {
            1 => " 1 event was set aside, since it contradicts the one that was kept.".to_owned(),
            more => format!(" {more} events were set aside, since they contradict the ones that were kept."),
        };
    }
    if lost == 0 && losses.is_empty() {
        return message + " Nothing was lost.";
    }
    message += &match lost {
        1 => " 1 event could not be found in any copy.".to_owned(),
        lost => format!(" {lost} events could not be found in any copy."),
    };
    for loss in losses.iter().take(MAX_LISTED) {
        let Some(session) = loss.session else {
            message += " For some of them, only the number is known.";
            continue;
        };
        let list = |numbers: &[u32]| numbers.iter().take(MAX_LISTED).map(u32::to_string).collect::<Vec<_>>().join(", ");
        message += &match loss.seqs.as_slice() {
            [] => format!(" Nothing is left of {session}"),
            [seq] => format!(" {session} lost event {seq}"),
            seqs => format!(" {session} lost events {}", list(seqs)),
        };
        message += &match loss.iterations.as_slice() {
            [] => String::new(),
            [index] => format!(" (iteration {index})"),
            indexes => format!(" (iterations {})", list(indexes)),
        };
        match (loss.after, loss.before) {
            (Some(after), Some(before)) => message += &format!(" from between {after} and {before}"),
            (Some(after), None) => message += &format!(" from after {after}"),
            (None, Some(before)) => message += &format!(" from before {before}"),
            (None, None) => {}
        }
        message.push('.');
    }
    message
}

/// Returns the loss that a `lost` event records.
pub(super) fn named_by(record: &Record<'_>) -> Option<SessionLoss> {
    match record.event(&|_| None)?.0.body {
        EventBody::Lost(loss) => Some(SessionLoss {
            session: Some(record.header.session),
            seqs: loss.seqs,
            iterations: Vec::new(),
            after: loss.after,
            before: loss.before,
        }),
        _ => None,
    }
}

/// Returns a loss of events of which only the number is known.
pub(super) fn unnamed_loss() -> SessionLoss {
    SessionLoss { session: None, seqs: Vec::new(), iterations: Vec::new(), after: None, before: None }
}

fn were(events: u64) -> String {
    if events == 1 { "1 event was".to_owned() } else { format!("{events} events were") }
}
