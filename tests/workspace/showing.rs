//! Showing one iteration: every kind of reference, and replies of bounded size however much was recorded.

use retake::internals::model::Lora;
use retake::internals::model::iteration::{MAX_NAME_BYTES, MAX_NOTE_BYTES, MAX_PROMPT_BYTES};
use retake::internals::wire::{AnnotateRequest, GetRequest, IterationView, RecordRequest};

use crate::support::*;

fn get(ws: &TestWorkspace, reference: &str) -> IterationView {
    checked(ws.api().get(&GetRequest { reference: reference.into(), ..GetRequest::default() })).unwrap()
}

#[test]
fn every_reference_of_the_contract() {
    let ws = TestWorkspace::new();
    let first = ws.session(4);
    ws.wait(1000);
    let second = ws.session(2);
    for (reference, meant) in [
        (format!("{first}#2"), format!("{first}#2")),
        (first.clone(), format!("{first}#3")),
        (format!("{first}#first"), format!("{first}#0")),
        (format!("{first}#latest"), format!("{first}#3")),
        ("latest".to_owned(), format!("{second}#1")),
        ("#first".to_owned(), format!("{second}#0")),
        ("#latest".to_owned(), format!("{second}#1")),
        ("#0".to_owned(), format!("{second}#0")),
    ] {
        assert_eq!(get(&ws, &reference).reference.to_string(), meant, "{reference}");
        assert_eq!(ws.api().resolve(&reference).unwrap().to_string(), meant);
    }
}

#[test]
fn one_reply_contains_everything_known() {
    let ws = TestWorkspace::new();
    ws.record(&RecordRequest { title: Some("Cats".into()), ..prompt("a cat") });
    assert_eq!(
        json(&get(&ws, "latest")),
        r#"{"reference":"session-2025-12-11-001#0","sessionId":"session-2025-12-11-001","index":0,"timestamp":"2025-12-11T10:15:30.123Z","recordedAt":"2025-12-11T10:15:30.123Z","recordedBy":{"client":"test 1.0","user":"ada"},"outcome":{"status":"succeeded"},"recipe":{"prompt":"a cat"},"children":[],"annotations":{},"images":[],"session":{"id":"session-2025-12-11-001","createdAt":"2025-12-11T10:15:30.123Z","lastModifiedAt":"2025-12-11T10:15:30.123Z","iterationCount":1,"currentIterationIndex":0,"title":"Cats"}}"#
    );
}

#[test]
fn a_large_workflow_is_left_out_of_the_answer_and_kept_whole() {
    let ws = TestWorkspace::new();
    let mut parameters = serde_json::Map::new();
    parameters.insert("workflow".into(), "w".repeat(2_000_000).into());
    let request = RecordRequest { parameters: parameters.clone(), ..prompt("a cat") };
    let reference = ws.record(&request).reference.to_string();
    let view = get(&ws, &reference);
    assert_eq!(view.recipe.parameters_omitted_bytes, Some(2_000_015));
    assert!(json(&view).contains(r#""recipe":{"prompt":"a cat","parametersOmittedBytes":2000015}"#));
    assert_eq!(ws.state(&reference).iteration.recipe.parameters, parameters);
}

#[test]
fn the_most_that_may_be_recorded_is_still_shown() {
    let ws = TestWorkspace::new();
    let name = Some("\"".repeat(MAX_NAME_BYTES));
    let long = "\"".repeat(MAX_PROMPT_BYTES);
    let request = RecordRequest {
        prompt: long.clone(),
        prompt_sent: Some(long.clone()),
        negative_prompt: Some(long),
        model: name.clone(),
        model_hash: name.clone(),
        sampler: name.clone(),
        scheduler: name.clone(),
        provider: name.clone(),
        title: name.clone(),
        project: name,
        message: Some("\n".repeat(MAX_NOTE_BYTES)),
        loras: vec![Lora::new("x".repeat(MAX_NAME_BYTES), 0.1); 64],
        images: (0..64).map(|n| path(&ws.file(&format!("{n}-{}.png", "n".repeat(200)), &png(1, 1, n)))).collect(),
        ..RecordRequest::default()
    };
    let id = ws.record(&request).session.id().to_string();
    for _ in 0..50 {
        ws.record(&RecordRequest { parent: Some(format!("{id}#0")), ..prompt("a child") });
    }
    let tags = (0..64).map(|n| format!("{n}{}", "\"".repeat(500))).collect();
    let annotate = AnnotateRequest {
        reference: id.clone(),
        tags: Some(tags),
        note: Some("\"".repeat(MAX_NOTE_BYTES)),
        ..AnnotateRequest::default()
    };
    let annotated = checked(ws.api().annotate(&annotate)).unwrap();
    assert_eq!(annotated.truncated[0], "annotations.note");

    let view = get(&ws, &id);
    assert_eq!(view.truncated[0], "recipe.prompt");
    assert!(view.recipe.recipe.prompt.ends_with('…'));
    let whole = ws.state(&id);
    assert_eq!(whole.iteration.recipe.prompt.len(), MAX_PROMPT_BYTES);
    assert_eq!(whole.annotation.tags.len(), 64);
}
