//! The claim that OpenAI and Google sign into their pictures (C2PA): who made it, with what, on which day. There is never a
//! prompt or a seed in it. The signature is not verified here, and the reading says so.

use serde_json::Value;

use super::container::{Slot, Texts};
use super::fields::{Fields, at};
use super::{Created, Generator, Precision, fields};

/// What the whole picture is when a model made it; composites have another word.
const MADE_BY_MODEL: &str = "/trainedAlgorithmicMedia";

/// Reads the claim.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let assertions = || {
        let of_c2pa = texts.raw.iter().enumerate().filter(|(_, raw)| raw.slot == Slot::C2pa);
        of_c2pa.filter_map(|(index, raw)| Some((index, raw.key.as_str(), texts.json(index)?)))
    };
    let claims = assertions().filter(|(_, key, _)| key.starts_with("c2pa.claim"));
    let mut makers = claims.flat_map(|(index, _, claim)| {
        let info = claim.get("claim_generator_info");
        let listed = info.and_then(Value::as_array).into_iter().flatten().chain(info.filter(|info| info.is_object()));
        let names = listed.filter_map(|info| info.get("name")?.as_str());
        let names = names.chain(claim.get("claim_generator").and_then(Value::as_str));
        names.map(move |name| (index, name.to_owned())).collect::<Vec<_>>()
    });
    let actions: Vec<(usize, &Value)> = assertions()
        .filter(|(_, key, _)| key.starts_with("c2pa.actions"))
        .flat_map(|(index, _, value)| {
            value.get("actions").and_then(Value::as_array).into_iter().flatten().map(move |it| (index, it))
        })
        .collect();
    let by_model = |action: &&(usize, &Value)| {
        action.1.get("digitalSourceType").and_then(Value::as_str).is_some_and(|kind| kind.ends_with(MADE_BY_MODEL))
    };
    let (index, made) = actions.iter().find(by_model)?;
    let agent = made.get("softwareAgent").and_then(agent);
    let known = |name: &str| {
        let name = name.to_ascii_lowercase();
        if name.contains("openai") || name.contains("gpt-") || name.contains("dall") {
            Some(Generator::OpenAi)
        } else if name.contains("google") || name.contains("gemini") || name.contains("imagen") {
            Some(Generator::Google)
        } else {
            None
        }
    };
    let described = made.get("description").and_then(Value::as_str);
    let by_agent = agent.iter().map(String::as_str).chain(described).find_map(known).map(|it| (*index, it));
    let (claimed, generator) = makers.find_map(|(index, name)| Some((index, known(&name)?))).or(by_agent)?;
    let mut fields = Fields::of(generator, at(claimed, "C2PA claim, not verified"));
    fields.notes.push("the maker is what the C2PA claim says; its signature was not verified".to_owned());
    fields.model(at(*index, "`softwareAgent` of the action that made it"), &agent.unwrap_or_default(), None);
    let day = made.get("when").and_then(Value::as_str).and_then(fields::created);
    // Midnight to the second is a day that was written as a time.
    fields.created_at = day.map(|Created { at, precision }| Created {
        at,
        precision: if at.millis().rem_euclid(86_400_000) == 0 { Precision::Day } else { precision },
    });
    Some(fields)
}

/// A text, or a name and a version.
fn agent(agent: &Value) -> Option<String> {
    let part = |key: &str| agent.get(key).and_then(Value::as_str);
    match agent {
        Value::String(name) => Some(name.clone()),
        _ => Some(
            part("version")
                .map_or(part("name")?.to_owned(), |version| format!("{} {version}", part("name").unwrap_or_default())),
        ),
    }
}
