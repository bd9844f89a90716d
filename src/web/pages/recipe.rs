//! A recipe as a page shows it, and as other tools take it.

use maud::{Markup, html};

use super::changes::value;
use crate::model::Recipe;
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

/// The recipe as A1111 and Forge write it into their pictures, and read it back from a paste.
pub(super) fn a1111(recipe: &Recipe) -> String {
    let mut text = recipe.prompt_sent.clone().unwrap_or_else(|| recipe.prompt.clone());
    for lora in &recipe.loras {
        let mark = format!("<lora:{}:{}>", lora.name, lora.weight);
        if !text.contains(&format!("<lora:{}:", lora.name)) {
            text.push_str(&format!(" {mark}"));
        }
    }
    if let Some(negative) = &recipe.negative_prompt {
        text.push_str(&format!("\nNegative prompt: {negative}"));
    }
    let size = recipe.width.zip(recipe.height).map(|(width, height)| format!("{width}x{height}"));
    let rows = [
        ("Steps", recipe.steps.map(|steps| steps.to_string())),
        ("Sampler", recipe.sampler.clone()),
        ("Schedule type", recipe.scheduler.clone()),
        ("CFG scale", recipe.guidance_scale.map(|scale| scale.to_string())),
        ("Seed", recipe.seed.map(|seed| seed.to_string())),
        ("Size", size),
        ("Model hash", recipe.model_hash.clone()),
        ("Model", recipe.model.clone()),
        ("Denoising strength", recipe.denoise.map(|denoise| denoise.to_string())),
    ];
    let known = rows.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", quoted(&value?))));
    let line = known.collect::<Vec<_>>().join(", ");
    if !line.is_empty() {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// A value that holds a separator stands in quotes.
fn quoted(text: &str) -> String {
    if text.contains([',', ':', '\n', '"']) {
        value(&serde_json::Value::from(text)).escape_default().to_string()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Lora, Seed};

    #[test]
    fn a_recipe_can_be_pasted() {
        let recipe = Recipe {
            prompt: "a cat".to_owned(),
            negative_prompt: Some("blurry".to_owned()),
            steps: Some(30),
            sampler: Some("Euler a".to_owned()),
            guidance_scale: Some(7.0),
            seed: Some(Seed(42)),
            width: Some(512),
            height: Some(768),
            model: Some("sdxl".to_owned()),
            loras: vec![Lora { name: "fur".to_owned(), weight: 0.8 }],
            ..Recipe::default()
        };
        assert_eq!(
            a1111(&recipe),
            "a cat <lora:fur:0.8>\nNegative prompt: blurry\nSteps: 30, Sampler: Euler a, CFG scale: 7, Seed: 42, Size: 512x768, Model: sdxl"
        );
        assert_eq!(a1111(&Recipe { prompt: "a cat".to_owned(), ..Recipe::default() }), "a cat");
    }
}
