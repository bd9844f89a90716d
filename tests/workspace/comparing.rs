//! Comparing iterations of any sessions: what differs and nothing else, and how they came from each other.

use retake::internals::model::iteration::MAX_NAME_BYTES;
use retake::internals::model::{Lora, Seed, StepLabel};
use retake::internals::wire::{CompareRequest, CompareView, ErrorKind, RecordRequest};
use serde_json::{Value, json};

use crate::support::*;

fn request(references: &[&str]) -> CompareRequest {
    CompareRequest { references: references.iter().map(|it| (*it).to_owned()).collect(), render: None }
}

fn compare(ws: &TestWorkspace, references: &[&str]) -> CompareView {
    checked(ws.api().compare(&request(references))).unwrap()
}

#[test]
fn only_what_differs() {
    let ws = TestWorkspace::new();
    let base = RecordRequest {
        model: Some("sdxl".into()),
        seed: Some(Seed(u64::MAX)),
        steps: Some(20),
        guidance_scale: Some(7.0),
        loras: vec![Lora { name: "fur".into(), weight: 0.8 }],
        ..prompt("1girl, (red dress:1.2), standing")
    };
    ws.record(&base);
    ws.wait(1000);
    ws.record(&RecordRequest {
        steps: Some(30),
        guidance_scale: Some(5.5),
        loras: vec![Lora { name: "fur".into(), weight: 0.6 }],
        prompt: "1girl, solo, (red dress:1.35)".into(),
        ..base.clone()
    });
    let view = compare(&ws, &["session-2025-12-11-001", "session-2025-12-11-002"]);
    let whole = serde_json::to_value(&view).unwrap();
    assert_eq!(
        whole["parameters"],
        json!([
            { "name": "steps", "values": [20, 30], "delta": 10.0 },
            { "name": "guidanceScale", "values": [7.0, 5.5], "delta": -1.5 },
        ])
    );
    assert_eq!(whole["loras"], json!([{ "name": "fur", "weights": [0.8, 0.6] }]));
    assert_eq!(whole["same"], json!({ "model": "sdxl", "seed": "18446744073709551615" }));
    assert_eq!(whole["lineage"], json!({}), "they have nothing in common");
    assert_eq!(
        whole["differences"],
        json!([{
            "reference": "session-2025-12-11-002#0",
            "label": "reprompt",
            "summary": "+solo  ~red dress 1.2→1.35  -standing  steps 20→30  cfg 7→5.5  ~lora fur 0.8→0.6",
            "prompt": { "by": "tags", "changes": [
                { "kind": "added", "text": "solo", "newIndex": 1 },
                { "kind": "reweighted", "text": "red dress", "oldWeight": 1.2, "newWeight": 1.35, "oldIndex": 1, "newIndex": 2 },
                { "kind": "removed", "text": "standing", "oldIndex": 2 },
            ] },
        }])
    );
    ws.wait(1000);
    ws.record(&RecordRequest { seed: Some(Seed(3)), ..base });
    let reroll = compare(&ws, &["session-2025-12-11-001", "latest"]);
    assert_eq!((reroll.differences[0].label, reroll.parameters.len()), (StepLabel::Reroll, 1));
    assert_eq!(reroll.differences[0].summary, "reroll  seed 18446744073709551615→3");
    let itself = compare(&ws, &["latest", "latest"]);
    assert_eq!(itself.differences[0].summary, "same recipe");
    assert_eq!(itself.lineage.steps, [0, 0]);
}

#[test]
fn a_column_for_each() {
    let ws = TestWorkspace::new();
    for steps in [20, 30, 40] {
        ws.wait(1000);
        ws.record(&RecordRequest {
            steps: Some(steps),
            sampler: (steps > 20).then(|| "euler".into()),
            ..prompt("a cat")
        });
    }
    let view = compare(&ws, &["session-2025-12-11-001", "session-2025-12-11-002", "session-2025-12-11-003"]);
    assert_eq!(
        json(&view.parameters),
        r#"[{"name":"steps","values":[20,30,40]},{"name":"sampler","values":[null,"euler","euler"]}]"#
    );
    let against: Vec<String> = view.differences.iter().map(|it| it.summary.clone()).collect();
    assert_eq!(against, ["steps 20→30  +sampler euler", "steps 20→40  +sampler euler"]);
}

#[test]
fn workflows_by_node_however_large() {
    let ws = TestWorkspace::new();
    let workflow = |steps: u32| {
        let filler = json!({ "class_type": "Note", "inputs": { "text": "n".repeat(50_000) } });
        let sampler = json!({ "class_type": "KSampler", "inputs": { "steps": steps, "model": ["9", 0] } });
        let graph: Value = json!({ "3": sampler, "9": filler });
        RecordRequest { parameters: json!({ "prompt": graph }).as_object().unwrap().clone(), ..prompt("a cat") }
    };
    let id = ws.record(&workflow(20)).session.id().to_string();
    ws.record(&RecordRequest { session_id: Some(id.clone()), ..workflow(30) });
    let view = compare(&ws, &[&format!("{id}#0"), &format!("{id}#1")]);
    assert_eq!(view.parameters, []);
    assert_eq!(
        json(&view.differences[0].nodes),
        r#"[{"kind":"changed","classType":"KSampler","input":"steps","old":20,"new":30,"delta":10.0}]"#
    );
}

#[test]
fn how_they_came_from_each_other() {
    let ws = TestWorkspace::new();
    let id = ws.session(4);
    let child = RecordRequest { parent: Some(format!("{id}#1")), ..prompt("elsewhere") };
    let other = ws.record(&child).session.id().to_string();
    ws.record(&RecordRequest { session_id: Some(other.clone()), ..prompt("elsewhere, later") });
    let related = |references: &[&str]| {
        let lineage = compare(&ws, references).lineage;
        (lineage.common_ancestor.map(|it| it.to_string()), lineage.steps)
    };
    let at = |index: u32| format!("{id}#{index}");
    assert_eq!(related(&[&at(3), &other]), (Some(at(1)), vec![2, 2]));
    assert_eq!(related(&[&at(0), &at(3)]), (Some(at(0)), vec![0, 3]));
    assert_eq!(related(&[&at(3), &at(2), &other]), (Some(at(1)), vec![2, 1, 2]));
    let stranger = ws.session(1);
    assert_eq!(related(&[&at(3), &stranger]), (None, vec![]));
}

#[test]
fn the_most_that_may_be_compared_still_fits() {
    let ws = TestWorkspace::new();
    let mut references = Vec::new();
    for n in 0..12_usize {
        let name = |kind: &str| Some(format!("{n}{kind}{}", "\"".repeat(MAX_NAME_BYTES - 8)));
        let long = |part: &str| (0..2000).map(|at| format!("{part}{},", at * (n + 1))).collect::<String>();
        let nodes = (0..60).map(|node| {
            (
                format!("{node}"),
                json!({ "class_type": format!("{node}"), "inputs": { "text": format!("{n}{}", "\\".repeat(900)) } }),
            )
        });
        let graph: serde_json::Map<String, Value> = nodes.collect();
        let extra = (0..300).map(|at| (format!("{at}{}", "k".repeat(300)), json!(["\"".repeat(300), n])));
        let mut parameters: serde_json::Map<String, Value> = extra.collect();
        parameters.insert("prompt".into(), graph.into());
        let request = RecordRequest {
            prompt_sent: Some(long("\"")),
            negative_prompt: Some("\\".repeat(20_000 - n)),
            model: name("m"),
            sampler: name("s"),
            loras: (0..64).map(|at| Lora { name: format!("{at}{n}{}", "l".repeat(500)), weight: 0.5 }).collect(),
            images: vec![path(&ws.file(&format!("{}.png", "n".repeat(200)), &png(1, 1, 1)))],
            parameters,
            ..prompt(&long("a"))
        };
        references.push(ws.record(&request).reference.to_string());
    }
    let references: Vec<&str> = references.iter().map(String::as_str).collect();
    let view = compare(&ws, &references);
    assert_eq!((view.iterations.len(), view.differences.len()), (12, 11));
    assert!(!view.parameters.is_empty() && !view.truncated.is_empty());
    assert!(view.differences.iter().all(|it| it.prompt.as_ref().is_some_and(|it| !it.changes.is_empty())));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let ws = TestWorkspace::new();
    let id = ws.session(2);
    for (references, message) in [
        (vec![], "expected 2 to 12 iterations to compare, not 0"),
        (vec!["latest"], "not 1"),
        (vec!["latest"; 13], "not 13"),
        (vec!["latest", "tomorrow"], "is not a reference"),
    ] {
        fails(ws.api().compare(&request(&references)), ErrorKind::Invalid, message);
    }
    fails(ws.api().compare(&request(&["latest", &format!("{id}#7")])), ErrorKind::NotFound, "has no iteration 7");
}
