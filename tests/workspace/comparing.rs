//! Compares iterations of any sessions: only the differences, and how they descend from each other.

use retake::internals::model::iteration::MAX_NAME_BYTES;
use retake::internals::model::{Lora, Seed, StepLabel};
use retake::internals::wire::{
    CompareRequest, CompareView, ErrorKind, GetRequest, ImageRequest, RecordRequest, SearchRequest,
};
use retake::internals::workspace::CallContext;
use serde_json::{Value, json};

use crate::support::*;

fn request(references: &[&str]) -> CompareRequest {
    CompareRequest { references: references.iter().map(|it| (*it).to_owned()).collect(), render: None }
}

fn compare(ws: &TestWorkspace, references: &[&str]) -> CompareView {
    checked(ws.api().compare(&request(references))).unwrap()
}

#[test]
fn images_of_a_batch_have_their_own_seeds() {
    let ws = TestWorkspace::new();
    let parameters = json!({ "seeds": ["7", "8"], "clip_skip": 2 });
    ws.record(&RecordRequest {
        seed: Some(Seed(7)),
        parameters: parameters.as_object().unwrap().clone(),
        images: vec![path(&ws.file("a.png", &png(64, 48, 1))), path(&ws.file("b.png", &png(64, 48, 2)))],
        ..prompt("a fox")
    });
    let seed_of = |reference: &str| {
        let request = GetRequest { reference: reference.to_owned(), ..GetRequest::default() };
        checked(ws.api().get(&request)).unwrap().recipe.recipe.seed
    };
    assert_eq!([seed_of("#0"), seed_of("#0/0"), seed_of("#0/1")], [7, 7, 8].map(|seed| Some(Seed(seed))));

    let view = serde_json::to_value(compare(&ws, &["#0/0", "#0/1"])).unwrap();
    assert_eq!(view["parameters"], json!([{ "name": "seed", "values": ["7", "8"] }]));

    for (query, found) in [("seed:7", 1), ("seed:8", 1), ("seed:9", 0)] {
        let request = SearchRequest { query: Some(query.to_owned()), ..SearchRequest::default() };
        assert_eq!(checked(ws.api().search(&request)).unwrap().total_matches, found, "{query}");
    }

    ws.record(&RecordRequest { like: Some("#0/1".to_owned()), ..RecordRequest::default() });
    let next = ws.api().get(&GetRequest { reference: "latest".to_owned(), ..GetRequest::default() }).unwrap();
    assert_eq!(next.recipe.recipe.seed, Some(Seed(8)));
    assert!(!next.recipe.recipe.parameters.contains_key("seeds"), "one image is not a batch");
}

#[test]
fn only_differences_are_listed() {
    let ws = TestWorkspace::new();
    let base = RecordRequest {
        model: Some("sdxl".into()),
        seed: Some(Seed(u64::MAX)),
        steps: Some(20),
        guidance_scale: Some(7.0),
        loras: vec![Lora::new("fur", 0.8)],
        ..prompt("1girl, (red dress:1.2), standing")
    };
    ws.record(&base);
    ws.wait(1000);
    ws.record(&RecordRequest {
        steps: Some(30),
        guidance_scale: Some(5.5),
        loras: vec![Lora::new("fur", 0.6)],
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
fn the_common_ancestor_is_found() {
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
            loras: (0..64).map(|at| Lora::new(format!("{at}{n}{}", "l".repeat(500)), 0.5)).collect(),
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
fn what_cannot_be_compared_is_reported() {
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

#[test]
fn each_image_of_a_batch_has_a_reference() {
    let ws = TestWorkspace::new();
    let batch = RecordRequest {
        images: vec![path(&ws.file("a.png", &png(64, 48, 1))), path(&ws.file("b.png", &png(64, 48, 9)))],
        ..prompt("a cat, twice")
    };
    let id = ws.record(&batch).reference.to_string();
    let (first, second) = (format!("{id}/0"), format!("{id}/1"));

    let view = compare(&ws, &[&first, &second]);
    let named: Vec<String> = view.iterations.iter().map(|it| it.reference.to_string()).collect();
    assert_eq!(named, [first.clone(), second.clone()]);
    assert_eq!(view.differences[0].reference.to_string(), second);
    assert_ne!(view.iterations[0].image.as_ref().unwrap().hash, view.iterations[1].image.as_ref().unwrap().hash);
    assert_eq!(view.iterations[1].image.as_ref().unwrap().uri, "retake://iterations/session-2025-12-11-001/0/image/1");
    assert_eq!(view.differences[0].summary, "same recipe");
    assert_eq!(compare(&ws, &["latest", "#0/0"]).differences[0].visual.as_ref().unwrap().changed_area, 0.0);

    let bytes =
        |reference: &str| ws.api().image(&ImageRequest { reference: reference.into(), image: None }).unwrap().data;
    assert_eq!((bytes(&first), bytes("latest/1")), (png(64, 48, 1), png(64, 48, 9)));
    assert_eq!(ws.api().resolve("#latest/1").unwrap().to_string(), id, "an image also names its iteration");
    fails(ws.api().compare(&request(&["#0/0", "#0/2"])), ErrorKind::NotFound, "#0 has no image 2");
    fails(ws.api().resolve("#0/2"), ErrorKind::NotFound, "#0 has no image 2");
}

#[test]
fn a_cancelled_comparison_ends() {
    let ws = TestWorkspace::new();
    let with =
        |name: &str, seed| RecordRequest { images: vec![path(&ws.file(name, &png(64, 48, seed)))], ..prompt("a cat") };
    ws.record(&with("a.png", 1));
    ws.record(&with("b.png", 2));
    let context = CallContext::default().cancel_when(|| true);
    let both = request(&["session-2025-12-11-001", "session-2025-12-11-002"]);
    let error = ws.api().with_context(&context).compare(&both).unwrap_err();
    assert!(matches!(error.as_workspace_error(), Some(retake::internals::workspace::Error::Cancelled)), "{error}");
    let view = ws.api().compare(&both).unwrap();
    let error = ws.api().with_context(&context).render(&view, None).map(|_| ()).unwrap_err();
    assert!(matches!(error.as_workspace_error(), Some(retake::internals::workspace::Error::Cancelled)), "{error}");
}

#[test]
fn composition_and_colour_are_judged_apart() {
    let ws = TestWorkspace::new();
    // The same hills in the morning and in the evening.
    let hills = |light: [u8; 3]| {
        let image = image::RgbImage::from_fn(160, 120, |x, y| {
            let shade = (x * 3 + y * 5) % 200 + 50;
            image::Rgb(light.map(|channel: u8| u8::try_from(u32::from(channel) * shade / 255).unwrap_or(255)))
        });
        let mut file = std::io::Cursor::new(Vec::new());
        image.write_to(&mut file, image::ImageFormat::Png).unwrap();
        file.into_inner()
    };
    for (name, light) in
        [("morning.png", [90, 140, 230]), ("evening.png", [240, 130, 60]), ("again.png", [92, 141, 229])]
    {
        ws.record(&RecordRequest { images: vec![path(&ws.file(name, &hills(light)))], ..prompt("hills") });
    }
    let visual = |other: &str| {
        let view = compare(&ws, &["session-2025-12-11-001", other]);
        view.differences[0].visual.clone().unwrap()
    };
    let evening = visual("session-2025-12-11-002");
    assert!(evening.verdict.starts_with("Composition: same · Colour: strongly changed · "), "{}", evening.verdict);
    assert!(!evening.nearly_same && evening.colour_difference > 15.0, "{evening:?}");
    let again = visual("session-2025-12-11-003");
    assert!(again.verdict.starts_with("Composition: same · Colour: same · "), "{}", again.verdict);
    assert!(again.nearly_same);

    // The image itself comes before images that only have its composition.
    let found = ws
        .api()
        .search(&SearchRequest { similar_to: Some("session-2025-12-11-001".into()), ..SearchRequest::default() });
    assert!(found.unwrap().iterations.iter().all(|hit| !hit.identical));
    let file = ws.file("copy.png", &hills([240, 130, 60]));
    let found = ws.api().search(&SearchRequest { similar_to: Some(file), ..SearchRequest::default() }).unwrap();
    assert_eq!(found.iterations[0].reference.to_string(), "session-2025-12-11-002#0");
    assert!(found.iterations[0].identical && !found.iterations[1].identical);
}
