//! Two machines with separate directories, as the faces use them: shared logs with a search index each.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use retake_log::model::{Query, SessionId};
use retake_log::sharing::{Change, Lifetime, Participation, SharedLog};
use retake_log::store::Detail;
use retake_search::{Question, SearchLog, extension};
use retake_testutils::{archive, at, options, rate, record, start, still_clock};

use super::postgres_trial;
use super::servers::{Postgres, config};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        postgres_trial("machines::two_machines_give_the_same_answers", same_answers),
        postgres_trial("machines::changes_reach_every_process_of_every_machine", changes),
        postgres_trial("machines::long_texts_travel_with_imports", imports),
        postgres_trial("machines::many_sessions_are_read_at_once_and_whole", whole_sessions),
    ]
}

fn join(url: &str, dir: &Path, lifetime: Lifetime) -> SharedLog {
    let carrier = retake_team::open_log(config(url), dir, still_clock(), Arc::new(|_| Ok(())));
    let how = Participation { extensions: vec![extension(dir)], carrier: Some(carrier), ..lifetime.into() };
    SharedLog::open(dir, options(), how).unwrap()
}

/// Returns the total of a search, and the first hits with their prompts.
fn found(log: &SharedLog, query: &str) -> (u64, Vec<(String, String, u8)>) {
    let question = Question { facets: true, ..Question::new(Query::parse(query, at(0)).unwrap(), 50) };
    let found = log.search(&question, None).unwrap();
    let hit = |finding: &retake_search::Finding| {
        (finding.hit.place.id.to_string(), finding.iteration.recipe.prompt.clone(), finding.hit.rating)
    };
    (found.found.total, found.findings.iter().map(hit).collect())
}

fn same_answers() {
    let url = Postgres::shared().workspace();
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = join(&url, here.path(), Lifetime::OneShot);
    let second = join(&url, there.path(), Lifetime::OneShot);
    let client = join(&url, there.path(), Lifetime::OneShot);
    assert!(first.is_owner() && second.is_owner() && !client.is_owner());
    for n in 0..60 {
        let log = [&first, &second, &client][usize::try_from(n % 3).unwrap()];
        let id = log.append(start(&format!("a fox {n}"), n, &format!("s{n}"))).unwrap().head.id;
        log.append(record(id, &format!("{} owl {n}", "long ".repeat(2000)), n, &format!("r{n}"))).unwrap();
        if n % 4 == 0 {
            first.append(rate(id, 0, 5, n, &format!("a{n}"))).unwrap();
        }
        if n % 10 == 0 {
            second.append(archive(id, n, &format!("x{n}"))).unwrap();
            // Whatever was acknowledged anywhere is found everywhere.
            let query = format!("\"fox {n}\"");
            for log in [&first, &second, &client] {
                assert_eq!(found(log, &query).0, 1, "{query}");
            }
        }
    }
    for query in ["fox", "owl", "rating:5", "fox -owl", "status:archived", "long owl"] {
        let expected = found(&first, query);
        assert_eq!(found(&second, query), expected, "{query}");
        assert_eq!(found(&client, query), expected, "{query}");
        // A machine that starts now builds its index from the whole log.
        let fresh = tempfile::tempdir().unwrap();
        assert_eq!(found(&join(&url, fresh.path(), Lifetime::OneShot), query), expected, "{query}");
    }
    assert_eq!((found(&first, "fox").0, found(&first, "rating:5").0), (60, 15));
    // A directory that was used for another workspace is not mistaken for this one's.
    drop(first);
    let other = join(&Postgres::shared().workspace(), here.path(), Lifetime::OneShot);
    assert_eq!(found(&other, "fox").0, 0);
}

fn changes() {
    let url = Postgres::shared().workspace();
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let owner = join(&url, here.path(), Lifetime::LongRunning);
    let client = join(&url, here.path(), Lifetime::LongRunning);
    let elsewhere = join(&url, there.path(), Lifetime::OneShot);
    let followers = [owner.follow(), client.follow()];
    for n in 0..5 {
        let id = elsewhere.append(start("a", n, &format!("{n}"))).unwrap().head.id;
        for follower in &followers {
            for seq in 0..2 {
                match follower.recv_timeout(Duration::from_secs(20)).unwrap() {
                    Change::Event(event) => assert_eq!((event.session, event.seq), (id, seq)),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// Sessions whose events take several queries, and end anywhere within one.
fn whole_sessions() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let local = SharedLog::open(here.path(), options(), Lifetime::OneShot).unwrap();
    let url = Postgres::shared().workspace();
    let team = retake_team::open_log(config(&url), there.path(), still_clock(), Arc::new(|_| Ok(())))().unwrap();
    let mut expected = Vec::new();
    for (n, more) in (0..).zip([3000, 0, 1092, 0, 2500]) {
        let id = local.append(start("a fox", n, &format!("s{n}"))).unwrap().head.id;
        let batches = (0..more).map(|m| record(id, "an owl", n, &format!("r{n} {m}"))).collect();
        assert!(local.append_all(batches).error.is_none());
        team.import(&local.records(id).unwrap()).unwrap();
        expected.push((id, local.events(id, Detail::Full).unwrap()));
    }
    let ids: Vec<SessionId> = expected.iter().map(|(id, _)| *id).collect();
    let mut read = Vec::new();
    let all = team.each_session(&ids, Detail::Full, &mut |id, events| {
        read.push((id, events));
        Ok(())
    });
    all.unwrap();
    assert!(read == expected, "{:?}", read.iter().map(|(id, events)| (id, events.len())).collect::<Vec<_>>());
}

fn imports() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let local = SharedLog::open(here.path(), options(), Lifetime::OneShot).unwrap();
    let long = "long ".repeat(4000);
    let id = local.append(start(&long, 0, "a")).unwrap().head.id;
    let url = Postgres::shared().workspace();
    let team = join(&url, there.path(), Lifetime::OneShot);
    // As the faces do: texts first, then records.
    team.put_text(&long).unwrap();
    assert_eq!(team.import(&local.records(id).unwrap()).unwrap(), 2);
    let elsewhere = tempfile::tempdir().unwrap();
    let other = join(&url, elsewhere.path(), Lifetime::OneShot);
    assert_eq!(other.records(id).unwrap(), local.records(id).unwrap());
    assert_eq!(found(&other, "long").1[0].1, long);
    assert_eq!(other.verify(None).unwrap().problems, Vec::<String>::new());
    assert!(other.repair(None).unwrap().is_none());
}
