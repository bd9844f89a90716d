//! `find_iterations`, `find_sessions`: what a search finds, for a wall that is looked at: any part of it, and either all
//! iterations or the sessions they are in. The index answers, so that it costs what a search costs and not a look at every
//! session.

use crate::search::Findings;

use super::search::{Answered, Of, show_place};
use super::{Error, ErrorKind, FacetsView, FoundIteration, SearchRequest, SessionRow, Tracker, cursor};

/// A part of what was found. Not bounded by bytes, since nobody sends it as one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPart<T> {
    /// What lies there, in the order asked for.
    pub found: Vec<T>,
    /// How much there is in all.
    pub total: u64,
    /// Present when there is more: give it back as `cursor`.
    pub next_cursor: Option<String>,
    /// How many matching iterations have which value, when that was asked.
    pub facets: Option<FacetsView>,
}

/// A session in which something matches.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundSession {
    /// The session.
    pub session: SessionRow,
    /// How many of its iterations match.
    pub matching: u64,
    /// The first of them, in the order asked for.
    pub first: FoundIteration,
}

impl Tracker {
    /// The iterations that match, from `skip` behind the cursor on.
    pub fn find_iterations(&self, request: &SearchRequest, skip: usize) -> Result<FoundPart<FoundIteration>, Error> {
        let Answered { query, scope, findings, .. } = self.answered(request, Of::Iterations, skip, &self.context())?;
        let found = findings.findings.iter().map(|finding| self.found_iteration(&query, finding)).collect();
        Ok(part(found, &scope, findings))
    }

    /// The sessions in which something matches, from `skip` behind the cursor on, in the order of the first match in each.
    pub fn find_sessions(&self, request: &SearchRequest, skip: usize) -> Result<FoundPart<FoundSession>, Error> {
        let Answered { query, scope, findings, .. } = self.answered(request, Of::Sessions, skip, &self.context())?;
        let found = |finding| {
            let first = self.found_iteration(&query, finding);
            let summary = finding.session.summary().ok_or_else(|| {
                let gone = format!("nothing is left of {}", finding.session.id);
                Error::new(ErrorKind::Damaged, gone, "run `retake verify` to see what was lost")
            })?;
            Ok(FoundSession { session: SessionRow::new(&summary)?, matching: finding.hit.siblings.unwrap_or(1), first })
        };
        let sessions = findings.findings.iter().map(found).collect::<Result<_, Error>>()?;
        Ok(part(sessions, &scope, findings))
    }
}

fn part<T>(found: Vec<T>, scope: &str, findings: Findings) -> FoundPart<T> {
    let last = findings.findings.last().filter(|_| findings.found.more);
    FoundPart {
        found,
        total: findings.found.total,
        next_cursor: last.map(|last| cursor::encode(scope, &show_place(last.hit.place))),
        facets: findings.found.facets.map(FacetsView::new),
    }
}
