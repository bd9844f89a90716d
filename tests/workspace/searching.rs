//! Searching, as a user would notice it.

use std::fs::{self, File};

use retake::internals::model::{Cost, OutcomeStatus, Status};
use retake::internals::search::Sort;
use retake::internals::wire::{
    AnnotateRequest, ArchiveRequest, AuditRequest, ErrorKind, ExcerptField, ImageInput, OpenedImage, RecordRequest,
    SearchRequest, SearchView,
};

use crate::support::TestWorkspace;

fn ask(workspace: &TestWorkspace, query: &str) -> SearchView {
    workspace.api().search(&request(query)).unwrap()
}

fn request(query: &str) -> SearchRequest {
    SearchRequest { query: Some(query.to_owned()), ..SearchRequest::default() }
}

fn references(view: &SearchView) -> Vec<String> {
    view.iterations.iter().map(|found| found.reference.to_string()).collect()
}

/// Creates two sessions: one of three bridges, with a title and a project, and one of a river.
fn bridges() -> TestWorkspace {
    let workspace = TestWorkspace::new();
    let record = |request: RecordRequest| workspace.api().record(&request).unwrap();
    let first = record(RecordRequest {
        prompt: "A glass bridge at night".to_owned(),
        model: Some("SDXL 1.0".to_owned()),
        title: Some("Río grande".to_owned()),
        project: Some("Cats".to_owned()),
        ..RecordRequest::default()
    });
    for (prompt, negative) in [("glass bridges in fog", None), ("a stone bridge", Some("fog, glass"))] {
        workspace.wait(1000);
        record(RecordRequest {
            prompt: prompt.to_owned(),
            negative_prompt: negative.map(str::to_owned),
            session_id: Some(first.session.id().to_string()),
            ..RecordRequest::default()
        });
    }
    workspace.wait(1000);
    record(RecordRequest { prompt: "玻璃桥, a river".to_owned(), ..RecordRequest::default() });
    workspace
}

const ONE: &str = "session-2025-12-11-001";
const TWO: &str = "session-2025-12-11-002";

#[test]
fn words_phrases_beginnings_and_titles_newest_first() {
    let workspace = bridges();
    for (query, expected) in [
        ("", vec![format!("{TWO}#0"), format!("{ONE}#2"), format!("{ONE}#1"), format!("{ONE}#0")]),
        ("bridge", vec![format!("{ONE}#2"), format!("{ONE}#1"), format!("{ONE}#0")]),
        ("\"bridge\"", vec![format!("{ONE}#2"), format!("{ONE}#0")]),
        ("ridge", vec![format!("{ONE}#2"), format!("{ONE}#1"), format!("{ONE}#0")]),
        ("stones", vec![format!("{ONE}#2")]),
        ("br", vec![]),
        ("BRIDG*", vec![format!("{ONE}#2"), format!("{ONE}#1"), format!("{ONE}#0")]),
        ("\"glass bridge\"", vec![format!("{ONE}#0")]),
        // Fog in a negative prompt does not count as fog.
        ("bridg* -fog", vec![format!("{ONE}#2"), format!("{ONE}#0")]),
        ("bridg* -negative:fog", vec![format!("{ONE}#1"), format!("{ONE}#0")]),
        ("bridg* -prompt:fog", vec![format!("{ONE}#2"), format!("{ONE}#0")]),
        ("rio", vec![format!("{ONE}#2"), format!("{ONE}#1"), format!("{ONE}#0")]),
        ("璃桥", vec![format!("{TWO}#0")]),
        ("model:sdxl", vec![format!("{ONE}#0")]),
        ("river OR stone", vec![format!("{TWO}#0"), format!("{ONE}#2")]),
        ("project:cats on:today", vec![format!("{ONE}#2"), format!("{ONE}#1"), format!("{ONE}#0")]),
        ("nothing", vec![]),
    ] {
        let view = ask(&workspace, query);
        assert_eq!(references(&view), expected, "{query}");
        assert_eq!(view.total_matches, expected.len() as u64, "{query}");
        assert_eq!(view.next_cursor, None);
    }
}

#[test]
fn an_annotation_is_found_at_once() {
    let workspace = bridges();
    let reference = format!("{ONE}#1");
    let annotate = |rating: Option<u8>, tags: &[&str], note: &str| {
        let request = AnnotateRequest {
            reference: reference.clone(),
            rating,
            tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()),
            note: Some(note.to_owned()),
            ..AnnotateRequest::default()
        };
        workspace.api().annotate(&request).unwrap();
    };
    assert_eq!(ask(&workspace, "tag:hero").total_matches, 0);
    annotate(Some(5), &["Hero"], "the client's pick");
    for query in ["tag:hero", "rating:>=4", "note:pick", "\"client s pick\"", "has:note"] {
        assert_eq!(references(&ask(&workspace, query)), [reference.as_str()], "{query}");
    }
    annotate(None, &[], "");
    for (query, total) in [("tag:hero", 0), ("rating:5", 1), ("pick", 0), ("has:note", 0)] {
        assert_eq!(ask(&workspace, query).total_matches, total, "{query}");
    }
    let best = SearchRequest { sort: Some(Sort::Best), ..request("bridg*") };
    let best = workspace.api().search(&best).unwrap();
    assert_eq!(references(&best), [format!("{ONE}#1"), format!("{ONE}#2"), format!("{ONE}#0")]);

    let session = ArchiveRequest { session_id: ONE.to_owned(), ..ArchiveRequest::default() };
    workspace.api().archive(&session).unwrap();
    let of = |status: Status| {
        let request = SearchRequest { status: Some(status), ..SearchRequest::default() };
        references(&workspace.api().search(&request).unwrap())
    };
    assert_eq!(of(Status::Active), [format!("{TWO}#0")]);
    assert_eq!(of(Status::Archived).len(), 3);
    workspace.api().restore(&session).unwrap();
    assert_eq!(of(Status::Archived).len(), 0);
}

#[test]
fn rows_mark_what_matched_and_suffice_to_choose() {
    let workspace = bridges();
    let view = ask(&workspace, "glass rio");
    let found = &view.iterations[2];
    assert_eq!((found.title.as_deref(), found.project.as_deref()), (Some("Río grande"), Some("Cats")));
    assert_eq!(found.metadata.model.as_deref(), Some("SDXL 1.0"));
    let marked: Vec<(ExcerptField, &str)> = found
        .matches
        .iter()
        .flat_map(|excerpt| {
            excerpt.parts.iter().filter(|part| part.is_match).map(|part| (excerpt.field, part.text.as_str()))
        })
        .collect();
    assert_eq!(marked, [(ExcerptField::Title, "Río")], "the prompt is in the row already");
    let view = workspace.api().marking_prompts().search(&request("glass rio")).unwrap();
    let found = &view.iterations[2].matches[0];
    assert_eq!(found.field, ExcerptField::Prompt);
    let whole: String = found.parts.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(whole, "A glass bridge at night");
}

#[test]
fn counts_follow_the_query() {
    let workspace = bridges();
    let view = workspace.api().search(&SearchRequest { facets: true, ..request("bridge") }).unwrap();
    let facets = view.facets.unwrap();
    let shown = |counts: &[retake::internals::wire::FacetCount]| {
        counts.iter().map(|one| format!("{} {}", one.value, one.count)).collect::<Vec<_>>()
    };
    assert_eq!(shown(&facets.model), ["SDXL 1.0 1"]);
    assert_eq!(shown(&facets.project), ["Cats 3"]);
    assert_eq!(shown(&facets.rating), ["none 3"]);
    assert_eq!(shown(&facets.status), ["active 3"]);
}

#[test]
fn a_cursor_keeps_its_place_while_more_is_recorded() {
    let workspace = bridges();
    let page = |cursor: Option<String>| {
        let request = SearchRequest { limit: Some(1), cursor, ..request("bridg*") };
        workspace.api().search(&request).unwrap()
    };
    let first = page(None);
    workspace.wait(1000);
    let newer = RecordRequest { prompt: "one more bridge".to_owned(), ..RecordRequest::default() };
    workspace.api().record(&newer).unwrap();
    let second = page(first.next_cursor.clone());
    let third = page(second.next_cursor.clone());
    assert_eq!((first.total_matches, third.total_matches, third.next_cursor.clone()), (3, 4, None));
    let seen = [references(&first), references(&second), references(&third)].concat();
    assert_eq!(seen, [format!("{ONE}#2"), format!("{ONE}#1"), format!("{ONE}#0")]);
    let elsewhere = SearchRequest { cursor: first.next_cursor, ..request("river") };
    assert_eq!(workspace.api().search(&elsewhere).unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn a_reply_stays_small_whatever_was_recorded() {
    let workspace = TestWorkspace::new();
    for number in 0..80 {
        let prompt = format!("needle {number} {}", "\"hay\" ".repeat(2000));
        let request = RecordRequest {
            prompt: prompt.clone(),
            negative_prompt: Some(prompt),
            title: Some("needle ".repeat(70)),
            ..RecordRequest::default()
        };
        workspace.api().record(&request).unwrap();
    }
    let (mut cursor, mut seen) = (None, 0);
    loop {
        let request = SearchRequest { limit: Some(1000), facets: true, cursor, ..request("needle hay") };
        let view = workspace.api().search(&request).unwrap();
        assert!(serde_json::to_string(&view).unwrap().len() <= retake::internals::wire::MAX_REPLY_BYTES);
        assert_eq!(view.total_matches, 80);
        seen += view.iterations.len();
        cursor = view.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, 80);
}

#[test]
fn invalid_requests_name_the_field_and_a_way_out() {
    let workspace = bridges();
    for (request, message) in [
        (request("bridge modle:sdxl"), "unknown facet `modle`, at character 8"),
        (
            SearchRequest { since: Some("soon".to_owned()), ..SearchRequest::default() },
            "since is invalid: \"soon\" is not a date or time",
        ),
        (
            SearchRequest { min_rating: Some(9), ..SearchRequest::default() },
            "minRating is 9: expected a whole number from 1 to 5",
        ),
        (
            SearchRequest { similar_to: Some(format!("{ONE}#0")), ..SearchRequest::default() },
            "session-2025-12-11-001#0 has no image",
        ),
        (
            SearchRequest { similar_to: Some("gone.png".to_owned()), ..SearchRequest::default() },
            "similarTo does not exist: gone.png",
        ),
    ] {
        let error = workspace.api().search(&request).unwrap_err();
        assert_eq!(error.message, message);
        assert!(!error.hint.is_empty());
    }
}

#[test]
fn numbers_schedulers_actors_and_messages_are_found() {
    let workspace = TestWorkspace::new();
    let record = |request: RecordRequest| workspace.api().record(&request).unwrap();
    record(RecordRequest {
        prompt: "1girl, boats".to_owned(),
        steps: Some(30),
        guidance_scale: Some(7.5),
        scheduler: Some("Karras".to_owned()),
        provider: Some("ComfyUI".to_owned()),
        cost: Some(Cost { amount: 0.04, currency: "USD".to_owned() }),
        project: Some("Harbour".to_owned()),
        ..RecordRequest::default()
    });
    record(RecordRequest {
        prompt: "a nude".to_owned(),
        steps: Some(20),
        outcome: Some(OutcomeStatus::Refused),
        message: Some("blocked by the safety filter".to_owned()),
        ..RecordRequest::default()
    });
    let user = workspace.api().audit(&AuditRequest { session_id: ONE.to_owned(), ..AuditRequest::default() }).unwrap();
    let user = format!("actor:\"{}\"", user.events[0].actor.user);
    for (query, expected) in [
        ("girl", vec![ONE]),
        ("boat", vec![ONE]),
        ("steps:30", vec![ONE]),
        ("steps:<30", vec![TWO]),
        ("steps:20..30", vec![TWO, ONE]),
        ("cfg:>=7.5", vec![ONE]),
        ("cfg:>7.5", vec![]),
        ("cost:>0.01", vec![ONE]),
        ("-cost:>0.01", vec![TWO]),
        ("scheduler:karras provider:comfy", vec![ONE]),
        ("safety", vec![TWO]),
        ("message:safety", vec![TWO]),
        (&user, vec![TWO, ONE]),
        ("actor:nobody-of-that-name", vec![]),
        ("project:HARBOUR", vec![ONE]),
    ] {
        let expected: Vec<String> = expected.into_iter().map(|id| format!("{id}#0")).collect();
        assert_eq!(references(&ask(&workspace, query)), expected, "{query}");
    }
    let of = |project: &str| {
        let request = SearchRequest { project: Some(project.to_owned()), ..SearchRequest::default() };
        workspace.api().search(&request).unwrap().total_matches
    };
    assert_eq!((of("harbour"), of("HARB"), of("town")), (1, 1, 0));
}

#[test]
fn a_search_without_results_names_the_word_that_excludes_everything() {
    let workspace = bridges();
    for (query, hint) in [
        ("zebra", Some("nothing recorded contains \"zebra\": check the spelling")),
        ("glass zebra", Some("nothing recorded contains \"zebra\": check the spelling")),
        ("river glass stone", Some("each word matches something, but not all together: leave one out, or write OR")),
        ("bridge rating:5", Some("the words match, but not with the other conditions: leave some of them out")),
        ("rating:5", None),
        ("bridge", None),
    ] {
        assert_eq!(ask(&workspace, query).hint.as_deref(), hint, "{query}");
    }
}

#[test]
fn an_image_that_nothing_resembles_is_reported_as_such() {
    let workspace = TestWorkspace::new();
    let image = workspace.file("alone.png", &retake_testutils::made::png(1, &[]));
    let request = RecordRequest {
        prompt: "a lighthouse".to_owned(),
        images: vec![ImageInput::Path(image)],
        ..RecordRequest::default()
    };
    workspace.api().record(&request).unwrap();
    let similar = SearchRequest { similar_to: Some(ONE.to_owned()), ..SearchRequest::default() };
    let found = workspace.api().search(&similar).unwrap();
    assert_eq!((found.total_matches, found.hint.as_deref()), (0, Some("no other recorded image looks like it")));
    // With further conditions, one of them may be the reason.
    let found = workspace.api().search(&SearchRequest { query: Some("harbour".to_owned()), ..similar }).unwrap();
    assert_eq!(found.hint.as_deref(), Some("nothing recorded contains \"harbour\": check the spelling"));
}

#[test]
fn projects_are_counted() {
    let workspace = bridges();
    let list = workspace.api().projects().unwrap();
    assert_eq!((list.total_projects, list.sessions_without), (1, 1));
    let cats = &list.projects[0];
    assert_eq!((cats.project.as_str(), cats.sessions, cats.iterations, cats.archived), ("Cats", 1, 3, 0));
}

#[test]
fn an_open_file_is_compared_even_if_its_name_is_reused() {
    let workspace = TestWorkspace::new();
    let path = workspace.file("like.png", &retake_testutils::made::png(1, &[]));
    let opened = OpenedImage::new(File::open(&path).unwrap(), path.clone().into());
    fs::remove_file(&path).unwrap();
    let by_name = SearchRequest { similar_to: Some(path), ..SearchRequest::default() };
    workspace.api().search(&by_name).unwrap_err();
    let by_file = SearchRequest { similar_opened: Some(opened), ..by_name };
    assert_eq!(workspace.api().search(&by_file).unwrap().total_matches, 0);
}

#[test]
fn a_misspelt_word_is_answered_with_a_similar_one() {
    let workspace = bridges();
    let hint = |query: &str| ask(&workspace, query).hint.unwrap_or_default();
    assert_eq!(hint("brigde"), "nothing recorded contains \"brigde\": did you mean \"bridge\"?");
    assert_eq!(
        hint("stoone brige"),
        "nothing recorded contains \"stoone\" or \"brige\": did you mean \"stone\" and \"bridge\"?"
    );
    assert_eq!(hint("title:gramde"), "nothing recorded contains \"gramde\": did you mean \"grande\"?");
    // Similar to nothing, too short to tell, and a word of another text than the one searched.
    for query in ["zeppelin", "fug", "title:brigde"] {
        assert!(hint(query).ends_with(": check the spelling"), "{query}: {}", hint(query));
    }
    // A word that is only recorded now is known at once.
    assert!(hint("zepelin").ends_with(": check the spelling"));
    let prompt = "a zeppelin".to_owned();
    workspace.api().record(&RecordRequest { prompt, ..RecordRequest::default() }).unwrap();
    assert_eq!(hint("zepelin"), "nothing recorded contains \"zepelin\": did you mean \"zeppelin\"?");
}

#[test]
fn results_are_ordered_by_size_and_shuffled() {
    let workspace = TestWorkspace::new();
    for (width, height) in [(512, 512), (1024, 1024), (64, 4096), (2048, 256), (512, 768), (768, 512)] {
        let size = (Some(width), Some(height));
        let request =
            RecordRequest { prompt: "a kite".to_owned(), width: size.0, height: size.1, ..RecordRequest::default() };
        workspace.api().record(&request).unwrap();
        workspace.wait(1000);
    }
    workspace
        .api()
        .record(&RecordRequest { prompt: "a kite of unknown size".to_owned(), ..RecordRequest::default() })
        .unwrap();
    // Page by page, as a wall is loaded.
    let order = |request: SearchRequest| -> Vec<String> {
        let mut request = SearchRequest { limit: Some(2), ..request };
        let mut found = Vec::new();
        loop {
            let page = workspace.api().search(&request).unwrap();
            found.extend(page.iterations.iter().map(|it| it.reference.to_string().replace("session-2025-12-11-", "")));
            request.cursor = page.next_cursor;
            if request.cursor.is_none() {
                return found;
            }
        }
    };
    let largest = order(SearchRequest { sort: Some(Sort::Largest), ..request("kite") });
    // The newest of equals comes first; what has no size comes last.
    assert_eq!(largest, ["002#0", "004#0", "006#0", "005#0", "003#0", "001#0", "007#0"]);
    let shuffled = |number: u16| order(SearchRequest { shuffle: Some(number), ..request("kite") });
    let orders: Vec<Vec<String>> = (0..8).map(shuffled).collect();
    for (number, order) in (0..).zip(&orders) {
        assert_eq!(*order, shuffled(number), "the same number gives the same order");
        let mut all = order.clone();
        all.sort();
        assert_eq!(all, ["001#0", "002#0", "003#0", "004#0", "005#0", "006#0", "007#0"], "each once");
    }
    let firsts: std::collections::BTreeSet<&String> = orders.iter().filter_map(|order| order.first()).collect();
    assert!(firsts.len() > 2, "{orders:?}");
}
