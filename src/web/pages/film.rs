//! The filmstrip of a session: a row of images, each captioned with its changes. Also the marks of all iterations,
//! which scripts use to filter without requesting each one.

use std::borrow::Cow;

use maud::{Markup, html};

use super::changes;
use crate::model::{OutcomeStatus, StepLabel};
use crate::web::pictures;
use crate::workspace::{Mark, Strip, StripImage, StripStep};

/// Returns one character per iteration: its rating, `0` for unreviewed, `x` for rejected, `-` for lost.
pub(super) fn marks(strip: &Strip) -> String {
    strip.marks.iter().map(|mark| letter(*mark)).collect()
}

/// Returns the character of a mark.
pub(super) fn letter(mark: Mark) -> char {
    match mark {
        Mark::Unreviewed => '0',
        Mark::Rated(rating) => char::from_digit(rating.into(), 10).unwrap_or('0'),
        Mark::Rejected => 'x',
        Mark::Lost => '-',
    }
}

/// Returns the character of an image, whose rating may differ from the best in its iteration.
pub(super) fn image_letter(mark: Mark, rating: Option<u8>) -> char {
    match mark {
        Mark::Unreviewed | Mark::Rated(_) => letter(rating.map_or(Mark::Unreviewed, Mark::Rated)),
        Mark::Rejected | Mark::Lost => letter(mark),
    }
}

/// Renders a range of the strip, with a placeholder for each lost iteration.
pub(super) fn takes(strip: &Strip, from: u32, limit: u32, chosen: u32) -> Markup {
    let id = strip.session.id;
    let until = from.saturating_add(limit).min(strip.session.iteration_count());
    let lost = |index: u32| strip.marks.get(index as usize) == Some(&Mark::Lost);
    html! {
        @for step in &strip.steps { (take(&format!("/sessions/{id}/{}", step.index), step, step.index == chosen)) }
        @for index in (from..until).filter(|index| lost(*index)) {
            a.take href={ "/sessions/" (id) "/" (index) } data-index=(index) data-mark="-" data-lane="0" tabindex="-1"
                aria-current=[(index == chosen).then_some("true")] {
                span.pic { (number(index)) span.no { "lost" } }
                span.caption { "lost to damage" }
            }
        }
    }
}

/// Returns the changes as a caption.
pub(super) fn caption(step: &StripStep) -> Cow<'_, str> {
    match (step.label, &step.change) {
        (Some(StepLabel::Reroll), Some(change)) if change.starts_with("seed ") => {
            format!("new {}", changes::readable(change)).into()
        }
        (Some(StepLabel::Reroll), _) => "reroll".into(),
        (_, Some(change)) => changes::readable(change).into(),
        (_, None) if step.prompt.trim().is_empty() => "no prompt".into(),
        (_, None) => step.prompt.as_str().into(),
    }
}

/// Returns the images of an iteration as one attribute: the hash, width, height and rating of each, `v` for a video and
/// `f` for any other file that browsers cannot show.
pub(super) fn images(images: &[StripImage]) -> Option<String> {
    let one = |image: &StripImage| {
        let (width, height) = image.size.unwrap_or_default();
        let kind = match image.mime_type.as_str() {
            video if pictures::is_played(video) => ":v",
            shown if pictures::is_shown(shown) => "",
            _ => ":f",
        };
        format!("{}:{width}:{height}:{}{kind}", image.hash, image.rating.unwrap_or(0))
    };
    (!images.is_empty()).then(|| images.iter().map(one).collect::<Vec<_>>().join(" "))
}

fn take(address: &str, step: &StripStep, chosen: bool) -> Markup {
    let parent = step.parent_lane.and(step.parent).map(|parent| parent.index);
    let caption = caption(step);
    // Continuing from the previous iteration is the norm; only name the parent if it is an older one.
    let fork = parent.filter(|parent| parent.saturating_add(1) != step.index);
    html! {
        a.take href=(address) title={ "#" (step.index) " · " (step.change.as_deref().unwrap_or(&step.prompt)) } data-index=(step.index)
            data-lane=(step.lane) data-parent=[parent] data-parent-lane=[step.parent_lane] data-images=[images(&step.images)]
            data-mark=(letter(step.mark)) data-rating=[step.rating]
            tabindex=(if chosen { "0" } else { "-1" }) aria-current=[chosen.then_some("true")] {
            span.pic {
                @match (step.images.first(), step.outcome) {
                    (Some(image), _) => { img src={ "/thumbs/" (image.hash) } alt="" loading="lazy" decoding="async"; }
                    (None, OutcomeStatus::Failed) => span.no { "failed" },
                    (None, OutcomeStatus::Refused) => span.no { "refused" },
                    (None, OutcomeStatus::Succeeded) => span.no { "no image" },
                }
                (number(step.index))
                @if step.images.len() > 1 { span.many { (step.images.len()) span.sr { " images" } } }
                (stars(step.rating))
            }
            span.caption dir="auto" {
                @if let Some(fork) = fork { span.fork { "⎇ #" (fork) } " " }
                (caption)
            }
        }
    }
}

/// Renders the number of an iteration over its image.
pub(super) fn number(index: u32) -> Markup {
    html! { span.nr { "#" (index) span.sr { ", " } } }
}

/// Renders the rating over an image of the strip or the grid, as scripts do too.
pub(super) fn stars(rating: Option<u8>) -> Markup {
    html! {
        @match rating {
            Some(rating) => span.rated role="img" aria-label={ (rating) " of 5 stars" } { @for _ in 0..rating { "★" } },
            None => span.rated {},
        }
    }
}
