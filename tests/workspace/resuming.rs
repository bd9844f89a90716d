//! Resuming: continuing days later with everything needed, from the last iteration or any other, with replies of
//! bounded size however long the story is.

use retake::internals::model::iteration::{MAX_NOTE_BYTES, MAX_PROMPT_BYTES};
use retake::internals::model::{Lora, Seed, SessionId, StepLabel};
use retake::internals::wire::{AnnotateRequest, ArchiveRequest, ErrorKind, RecordRequest, ResumeRequest, ResumeView};
use serde_json::{Value, json};

use crate::support::*;

fn resume(ws: &TestWorkspace, reference: Option<&str>) -> ResumeView {
    let request = ResumeRequest { reference: reference.map(str::to_owned) };
    checked(ws.api().resume(&request)).unwrap()
}

/// Records in this session, a second after the previous iteration.
fn add(ws: &TestWorkspace, session: &str, request: RecordRequest) -> String {
    ws.wait(1000);
    ws.record(&RecordRequest { session_id: Some(session.to_owned()), ..request }).reference.to_string()
}

fn seeded(text: &str, seed: u64) -> RecordRequest {
    RecordRequest { seed: Some(Seed(seed)), ..prompt(text) }
}

fn rate(ws: &TestWorkspace, reference: &str, rating: u8, note: Option<&str>) {
    let note = note.map(str::to_owned);
    let request = AnnotateRequest { reference: reference.into(), rating: Some(rating), note, ..Default::default() };
    ws.api().annotate(&request).unwrap();
}

fn archive(ws: &TestWorkspace, session: &str) {
    let request = ArchiveRequest { session_id: session.to_owned(), ..ArchiveRequest::default() };
    ws.api().archive(&request).unwrap();
}

fn lines(view: &ResumeView) -> Vec<String> {
    let line = |step: &retake::internals::wire::StoryStep| {
        let label = step.label.map(|label| format!("{label}: ")).unwrap_or_default();
        let rerolls = if step.rerolls > 0 { format!(" (and {} rerolls)", step.rerolls) } else { String::new() };
        format!("#{} {label}{}{rerolls}", step.reference.index, step.summary)
    };
    view.story.iter().map(line).collect()
}

#[test]
fn resuming_returns_everything_needed_to_continue() {
    let ws = TestWorkspace::new();
    let id = ws.record(&seeded("1girl, (red dress:1.2), standing", 1)).session.id().to_string();
    add(&ws, &id, seeded("1girl, (red dress:1.2), standing", 2));
    add(&ws, &id, seeded("1girl, (red dress:1.2), standing", 3));
    add(&ws, &id, seeded("1girl, solo, (red dress:1.35)", 3));
    rate(&ws, &format!("{id}#3"), 5, Some("the light is right"));
    let parameters: Value = json!({ "clipSkip": 2, "deep": { "zeta": 1, "alpha": [1.5, null] } });
    let last = RecordRequest {
        steps: Some(30),
        guidance_scale: Some(5.5),
        negative_prompt: Some("blurry".into()),
        loras: vec![Lora::new("fur", 0.8)],
        parameters: parameters.as_object().unwrap().clone(),
        images: vec![path(&ws.file("a.png", &png(4, 4, 9)))],
        ..seeded("1girl, solo, (red dress:1.35)", u64::MAX)
    };
    add(&ws, &id, last);

    let view = resume(&ws, None);
    assert_eq!(view.reference.to_string(), format!("{id}#4"));
    assert_eq!(
        lines(&view),
        [
            "#0 1girl, (red dress:1.2), standing (and 2 rerolls)",
            "#3 reprompt: +solo  ~red dress 1.2→1.35  -standing",
            "#4 reprompt: negative: +blurry  seed 3→18446744073709551615  +steps 30  +cfg 5.5  +clipSkip 2  \
             +deep {\"zeta\":1,\"alpha\":[1.5,null]}  +lora fur 0.8",
        ]
    );
    assert_eq!(view.images.len(), 1);
    let liked = &view.liked[0];
    assert_eq!((liked.reference.index, liked.annotations.rating), (3, Some(5)));
    assert_eq!(liked.annotations.note.as_deref(), Some("the light is right"));
    assert!(liked.since.as_ref().unwrap().contains("+steps 30"), "{liked:?}");

    // The returned recipe can be sent unchanged.
    let mut request = serde_json::to_value(&view.recipe).unwrap();
    assert_eq!(request["parameters"].to_string(), parameters.to_string());
    request.as_object_mut().unwrap().extend(serde_json::to_value(&view.next).unwrap().as_object().unwrap().clone());
    let request: RecordRequest = serde_json::from_value(request).unwrap();
    assert_eq!(ws.record(&request).reference.to_string(), format!("{id}#5"));
    assert_eq!(lines(&resume(&ws, None)).last().unwrap(), "#5 reroll: same recipe");
    fails(ws.try_record(&request), ErrorKind::Conflict, "has 6 iterations, not 5");
}

#[test]
fn going_back_still_lists_branches_and_other_sessions() {
    let ws = TestWorkspace::new();
    let id = ws.record(&prompt("a cat, snow")).session.id().to_string();
    add(&ws, &id, prompt("a cat, rain"));
    let left = add(&ws, &id, prompt("a cat, rain, night"));
    add(&ws, &id, RecordRequest { parent: Some(format!("{id}#0")), ..prompt("a cat, snow, dawn") });
    ws.wait(1000);
    let other =
        ws.record(&RecordRequest { parent: Some(left.clone()), ..prompt("a cat, rain, night, neon") }).reference;

    let view = resume(&ws, Some(&id));
    assert_eq!(lines(&view), ["#0 a cat, snow", "#3 reprompt: +dawn"]);
    let [branch] = view.branches.as_slice() else { panic!("{:?}", view.branches) };
    assert_eq!((branch.end.reference.to_string(), branch.steps), (left, 2));
    assert_eq!(branch.fork.unwrap().to_string(), format!("{id}#0"));
    assert_eq!(branch.end.summary, "+night");
    assert_eq!(view.continued_in, [other]);

    // The story goes back across sessions, including archived ones.
    archive(&ws, &id);
    let view = resume(&ws, None);
    assert_eq!(view.reference, other);
    assert_eq!(
        lines(&view),
        ["#0 a cat, snow", "#1 reprompt: -snow  +rain", "#2 reprompt: +night", "#0 reprompt: +neon"]
    );
    assert!(view.branches.is_empty());

    let view = resume(&ws, Some(&format!("{id}#1")));
    assert_eq!(lines(&view), ["#0 a cat, snow", "#1 reprompt: -snow  +rain"]);
    assert_eq!(view.branches.len(), 2, "the end of its own line, and the other");
    assert_eq!(view.next.session_id, None, "it is archived");
    assert_eq!(view.next.parent.to_string(), format!("{id}#1"));
}

#[test]
fn without_a_reference_it_is_the_most_recent_active_session() {
    let ws = TestWorkspace::new();
    let nothing = ws.api().resume(&ResumeRequest::default());
    fails(nothing, ErrorKind::NotFound, "no sessions yet");
    let first = ws.session(2);
    ws.wait(1000);
    let second = ws.session(1);
    assert_eq!(resume(&ws, None).reference.to_string(), format!("{second}#0"));
    archive(&ws, &second);
    assert_eq!(resume(&ws, None).reference.to_string(), format!("{first}#1"));
    archive(&ws, &first);
    fails(
        ws.api().resume(&ResumeRequest::default()),
        ErrorKind::NotFound,
        "all sessions of the workspace are archived",
    );
    for (reference, kind, message) in [
        ("session-2025-12-11-009", ErrorKind::NotFound, "there is no session session-2025-12-11-009"),
        ("session-2025-12-11-001#9", ErrorKind::NotFound, "has no iteration 9"),
        ("yesterday", ErrorKind::Invalid, "is not a reference"),
    ] {
        let request = ResumeRequest { reference: Some(reference.to_owned()) };
        fails(ws.api().resume(&request), kind, message);
    }
}

#[test]
fn a_long_story_is_summarised_in_few_steps() {
    let ws = TestWorkspace::new();
    let id = ws.record(&seeded("a cat, 0", 0)).session.id().to_string();
    for n in 1..400_u64 {
        // Nine rerolls for every change.
        add(&ws, &id, seeded(&format!("a cat, {}", n / 10), n));
    }
    rate(&ws, &format!("{id}#205"), 4, None);
    let view = resume(&ws, None);
    let reported: u64 = view.story.iter().map(|step| u64::from(step.rerolls) + 1).sum();
    let earlier = view.earlier.as_ref().map_or(0, |earlier| u64::from(earlier.iterations));
    assert_eq!(reported + earlier, 400, "every iteration is listed or counted");
    assert!((10..=40).contains(&view.story.len()), "{}", view.story.len());
    let rated = view.story.iter().find(|step| step.reference.index == 205).unwrap();
    assert_eq!((rated.label, rated.rating), (Some(StepLabel::Reroll), Some(4)), "what was rated is never folded");
    assert_eq!(earlier, 20);
    let earlier = view.earlier.unwrap();
    assert_eq!((earlier.first.index, earlier.first_prompt.as_deref()), (0, Some("a cat, 0")));
    assert_eq!(earlier.summary.as_deref(), Some("-0  +2  seed 0→20"));
}

#[test]
fn the_most_that_may_be_recorded_still_fits() {
    let ws = TestWorkspace::new();
    let long = |n: usize| format!("{n}{}", "\"\n".repeat(MAX_PROMPT_BYTES / 16));
    let parameters = |n: usize| {
        let nodes = (0..200).map(|node| {
            let text = format!("{n}{}", "\"".repeat(400));
            (format!("{node}"), json!({ "class_type": format!("Class{node}"), "inputs": { "text": text } }))
        });
        let graph: serde_json::Map<String, Value> = nodes.collect();
        json!({ "prompt": graph, "other": "\"".repeat(15_000), "n": n }).as_object().unwrap().clone()
    };
    let request = |n: usize| RecordRequest {
        prompt_sent: Some(long(n + 1)),
        negative_prompt: Some(long(n + 2)),
        parameters: parameters(n),
        message: Some("\t".repeat(MAX_NOTE_BYTES)),
        images: (0..20).map(|image| path(&ws.file(&format!("{image}.png"), &png(1, 1, image)))).collect(),
        ..prompt(&long(n))
    };
    let id = ws.record(&request(0)).session.id().to_string();
    for n in 1..6 {
        let reference = add(&ws, &id, RecordRequest { parent: (n % 2 == 0).then(|| format!("{id}#0")), ..request(n) });
        let tags = (0..64).map(|tag| format!("{tag}{}", "\"".repeat(500))).collect();
        let note = Some("\"".repeat(MAX_NOTE_BYTES));
        let described = AnnotateRequest { reference, rating: Some(5), tags: Some(tags), note, ..Default::default() };
        ws.api().annotate(&described).unwrap();
    }
    let view = resume(&ws, None);
    assert!(view.recipe.recipe.prompt.starts_with("5\"\n"), "something of the recipe is always left");
    assert!(view.truncated.contains(&"recipe.prompt".to_owned()), "{:?}", view.truncated);
    let id: SessionId = id.parse().unwrap();
    assert_eq!(ws.workspace.steps((0..6).map(|index| id.iteration(index))).unwrap().len(), 6);
}
