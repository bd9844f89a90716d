//! A recipe as a page shows it.

use maud::{Markup, html};

use crate::tracker::IterationView;
use crate::web::words;

/// The recipe's names and numbers.
pub(super) fn pairs(view: &IterationView) -> Markup {
    let recipe = &view.recipe.recipe;
    let size = recipe.width.zip(recipe.height).map(|(width, height)| format!("{width} × {height}"));
    let loras = recipe.loras.iter().map(|lora| format!("{} {}", lora.name, lora.weight)).collect::<Vec<_>>().join(", ");
    let rows = [
        ("Model", recipe.model.clone()),
        ("Model hash", recipe.model_hash.clone()),
        ("Seed", recipe.seed.map(|seed| seed.to_string())),
        ("Steps", recipe.steps.map(|steps| steps.to_string())),
        ("CFG", recipe.guidance_scale.map(|scale| scale.to_string())),
        ("Sampler", recipe.sampler.clone()),
        ("Scheduler", recipe.scheduler.clone()),
        ("Size", size),
        ("Denoise", recipe.denoise.map(|denoise| denoise.to_string())),
        ("LoRAs", Some(loras).filter(|loras| !loras.is_empty())),
        ("Made with", recipe.provider.clone()),
        ("Took", view.outcome.generation_time_ms.map(words::duration)),
        ("Cost", view.outcome.cost.as_ref().map(|cost| format!("{} {}", cost.amount, cost.currency))),
        ("Message", view.outcome.message.clone()),
    ];
    html! {
        dl.pairs {
            @for (name, value) in rows { @if let Some(value) = value { dt { (name) } dd { (value) } } }
        }
        @if recipe.model.is_none() && recipe.seed.is_none() && recipe.steps.is_none() { p.muted { "Only the prompt was recorded." } }
    }
}
