//! Prints how image and video files were made, according to their metadata, as one JSON object per line.
//!
//! ```text
//! cargo run --example recipe -- FILE…
//! ```
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::env;

use serde_json::json;

fn main() {
    for path in env::args().skip(1) {
        let line = match retake_recipe::read(&path) {
            Ok(reading) => json!({
                "file": path,
                "format": reading.format.map(|format| format.name()),
                "size": [reading.width, reading.height],
                "generator": reading.generator.map(|generator| generator.name()),
                "recipe": {
                    "prompt": reading.recipe.prompt,
                    "negativePrompt": reading.recipe.negative_prompt,
                    "seed": reading.recipe.seed.map(|seed| seed.to_string()),
                    "steps": reading.recipe.steps,
                    "guidanceScale": reading.recipe.guidance_scale,
                    "sampler": reading.recipe.sampler,
                    "scheduler": reading.recipe.scheduler,
                    "model": reading.recipe.model,
                    "width": reading.recipe.width,
                    "height": reading.recipe.height,
                    "loras": reading.recipe.loras.iter().map(|lora| (&lora.name, lora.weight)).collect::<Vec<_>>(),
                },
                "sources": reading.sources.iter().map(|it| format!("{}: {}", it.field, it.rule)).collect::<Vec<_>>(),
                "candidates": reading
                    .candidates
                    .iter()
                    .map(|it| json!({"field": it.field, "value": it.value, "place": it.place, "taken": it.taken, "reason": it.reason}))
                    .collect::<Vec<_>>(),
                "claims": reading.claims.iter().map(|claim| format!("{claim:?}")).collect::<Vec<_>>(),
                "texts": reading.raw.iter().map(|raw| (raw.place(), &raw.key, raw.text.len())).collect::<Vec<_>>(),
                "poster": reading.poster.map(|poster| (poster.offset, poster.length, poster.mime_type)),
                "notes": reading.notes,
            }),
            Err(error) => json!({"file": path, "error": error.to_string()}),
        };
        println!("{line}");
    }
}
