//! Search through a workspace shared by several processes: owner and clients find the same.
#![expect(clippy::unwrap_used, reason = "a failure is a test failure")]

use std::path::Path;

use retake_log::model::Query;
use retake_log::sharing::{Lifetime, Participation, SharedLog};
use retake_search::{Question, SearchLog, extension};
use retake_testutils::*;

fn join(dir: &Path, lifetime: Lifetime) -> SharedLog {
    let how = Participation { extensions: vec![extension(dir)], ..lifetime.into() };
    SharedLog::open(dir, options(), how).unwrap()
}

#[test]
fn a_client_finds_what_the_owner_finds_also_after_it_exits() {
    let dir = tempfile::tempdir().unwrap();
    let owner = join(dir.path(), Lifetime::OneShot);
    let client = join(dir.path(), Lifetime::OneShot);
    let question = |query: &str| Question { facets: true, ..Question::new(Query::parse(query, at(0)).unwrap(), 10) };
    let found = |workspace: &SharedLog, query: &str| {
        let found = workspace.search(&question(query), None).unwrap();
        let ids = found.findings.iter().map(|one| one.hit.place.id.index).collect::<Vec<_>>();
        (ids, found)
    };
    let id = client.append(start("a fox", 0, "k1")).unwrap().head.id;
    for number in 1..400 {
        client.append(record(id, &format!("a fox, take {number}"), number, &format!("r{number}"))).unwrap();
        if number % 50 == 0 {
            let newest = format!("take {number}");
            assert_eq!(found(&owner, &newest).0, [u32::try_from(number).unwrap()]);
        }
    }
    client.append(rate(id, 7, 5, 2, "k3")).unwrap();
    assert_eq!(found(&client, "rating:5 fox").0, [7]);
    let (_, all) = found(&owner, "fox");
    assert_eq!(found(&client, "fox").1, all);
    assert_eq!((all.found.total, all.findings.len(), all.found.more), (400, 10, true));
    assert_eq!(all.findings[0].iteration.recipe.prompt, "a fox, take 399");
    owner.close().unwrap();
    assert_eq!(found(&client, "fox").1, all);
    assert!(client.is_owner() && dir.path().join("cache/search/manifest").exists());
}

#[test]
fn an_owner_without_the_index_refuses_to_search() {
    let dir = tempfile::tempdir().unwrap();
    let _owner = SharedLog::open(dir.path(), options(), Lifetime::OneShot).unwrap();
    let client = join(dir.path(), Lifetime::OneShot);
    let question = Question::new(Query::parse("fox", at(0)).unwrap(), 10);
    let error = client.search(&question, None).unwrap_err().to_string();
    assert!(error.contains("\"search\" is unknown"), "{error}");
}
