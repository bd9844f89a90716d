//! What PostgreSQL itself enforces, and how the state of a schema is reported.

use libtest_mimic::Trial;
use retake_log::store::{Remedy, Target};
use retake_team::{Error, PgLog, SCHEMA_VERSION};
use retake_testutils::{archive, at, batch, record, start};

use super::carrier::{Carrier, contents};
use super::postgres_trial;
use super::servers::{Postgres, config, open};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        postgres_trial("database::the_application_role_can_only_append", only_append),
        postgres_trial("database::even_the_owner_cannot_change_records", owner_cannot_change),
        postgres_trial("database::a_client_that_breaks_the_rules_is_rejected", rules),
        postgres_trial("database::schema_states_are_named", schema_states),
        postgres_trial("database::an_older_schema_is_upgraded", upgraded),
        postgres_trial("database::wrong_roles_and_databases_are_named_without_secrets", wrong_roles),
        postgres_trial("database::a_restored_dump_goes_on_after_an_upgrade", restored),
        postgres_trial("database::unsafe_settings_are_warned_about", unsafe_settings),
        postgres_trial("database::damage_is_named", damage),
        postgres_trial("database::the_role_is_recorded", role_recorded),
    ]
}

/// Creates a workspace with an application role, and returns its schema and the role's URL.
fn with_role(server: &Postgres) -> (String, String) {
    let schema = server.fresh_schema();
    let role = format!("app_{schema}");
    server.sql(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    PgLog::init(config(&server.url(&schema)), "test", "file:///nowhere", Some(&role)).unwrap();
    let url = server.url(&schema).replace("postgres@", &format!("{role}@"));
    (schema, url)
}

fn only_append() {
    let server = Postgres::shared();
    let (schema, url) = with_role(server);
    let log = open(&url);
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    log.append(record(id, &"long ".repeat(4000), 1, "b")).unwrap();
    Carrier::import(&log, &Carrier::records(&log, id).unwrap()).unwrap();
    assert_eq!(contents(&log).sessions.len(), 1);
    assert_eq!(Carrier::problems(&log), Vec::<String>::new());
    let role = format!("app_{schema}");
    for forbidden in [
        "UPDATE {s}.records SET kind = 1",
        "DELETE FROM {s}.records",
        "TRUNCATE {s}.records",
        "INSERT INTO {s}.records (day, number, seq, kind, ord, bytes) VALUES (1, 1, 0, 1, 1, '')",
        "UPDATE {s}.heads SET archived = true",
        "DELETE FROM {s}.keys",
        "UPDATE {s}.days SET last = 0",
        "UPDATE {s}.settings SET schema_version = 9",
        "DROP TABLE {s}.records",
        "SELECT {s}.note_restore()",
        "SELECT {s}.store_records(NULL, true, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "CREATE TABLE {s}.mine ()",
    ] {
        let error = server.sql_as(&role, &forbidden.replace("{s}", &schema)).unwrap_err();
        assert!(error.contains("permission denied") || error.contains("must be owner"), "{forbidden}: {error}");
    }
}

fn owner_cannot_change() {
    let server = Postgres::shared();
    let schema = server.fresh_schema();
    PgLog::init(config(&server.url(&schema)), "test", "file:///nowhere", None).unwrap();
    open(&server.url(&schema)).append(start("a", 0, "a")).unwrap();
    for table in ["records", "texts", "keys", "links"] {
        for change in [format!("DELETE FROM {schema}.{table}"), format!("TRUNCATE {schema}.{table}")] {
            let error = server.sql(&change).unwrap_err();
            assert!(error.contains("append-only"), "{change}: {error}");
        }
    }
    assert!(server.sql(&format!("UPDATE {schema}.records SET kind = 9")).unwrap_err().contains("append-only"));
    let broken = server.sql(&format!("UPDATE {schema}.heads SET current_index = 7")).unwrap_err();
    assert!(broken.contains("head_is_consistent"), "{broken}");
    let backwards = server.sql(&format!("UPDATE {schema}.heads SET modified = created - 1")).unwrap_err();
    assert!(backwards.contains("head_is_consistent"), "{backwards}");
}

/// Calls `append` like a buggy client.
fn rules() {
    let server = Postgres::shared();
    let schema = server.fresh_schema();
    let url = server.url(&schema);
    PgLog::init(config(&url), "test", "file:///nowhere", None).unwrap();
    let log = open(&url);
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    log.append(record(id, "b", 1, "b")).unwrap();
    log.append(archive(id, 2, "c")).unwrap();
    let head = log.head(id).unwrap().unwrap();
    // Records that a client encodes without checking the archived flag.
    let mut open_head = head;
    open_head.archived = false;
    let encoded = |head, key: &str| {
        let sent = batch(Target::Existing(id), 3, key, record(id, "x", 3, key).drafts);
        let encoded = retake_log::store::carrier::encode_batch(head, &sent).unwrap();
        encoded.records[0].bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let call = |record: &str, index: u32, key: &str| {
        let day = at(0).day().signed_duration_since("0001-01-01".parse().unwrap()).num_days() + 1;
        server.sql(&format!(
            "SELECT (r).outcome FROM {schema}.append({day}, 1, false, NULL, ARRAY['\\x{record}'::bytea], ARRAY[{index}], \
             ARRAY[{}::bigint], ARRAY[NULL::bytea], ARRAY[NULL::bytea], '\\x{key}'::bytea, 3, {index}, NULL, NULL, NULL) r",
            at(3).millis()
        ))
    };
    // The short way for one iteration checks the same, and leaves the explanation to the other.
    let quick = |record: &str, index: u32, key: &str, expected: &str| {
        let day = at(0).day().signed_duration_since("0001-01-01".parse().unwrap()).num_days() + 1;
        server.sql(&format!(
            "SELECT {schema}.append_iteration({day}, 1, {expected}, '\\x{record}'::bytea, {index}, {}, '\\x{key}'::bytea)",
            at(3).millis()
        ))
    };
    // Several at once; the result is which were not stored.
    type Row<'a> = (&'a str, u32, &'a str, &'a str);
    let several = |rows: &[Row<'_>]| {
        let day = at(0).day().signed_duration_since("0001-01-01".parse().unwrap()).num_days() + 1;
        let column = |value: &dyn Fn(&Row<'_>) -> String| {
            format!("ARRAY[{}]", rows.iter().map(value).collect::<Vec<_>>().join(", "))
        };
        server.sql(&format!(
            "SELECT string_agg((ord IS NULL)::text::char, '') FROM unnest({schema}.append_iterations(\
             {}, {}, {}::integer[], {}, {}, {}::bigint[], {})) AS ord",
            column(&|_| day.to_string()),
            column(&|_| "1".to_owned()),
            column(&|(_, _, _, expected)| (*expected).to_owned()),
            column(&|(record, _, _, _)| format!("'\\x{record}'::bytea")),
            column(&|(_, index, _, _)| index.to_string()),
            column(&|_| at(3).millis().to_string()),
            column(&|(_, _, key, _)| format!("'\\x{key}'::bytea")),
        ))
    };
    let key = "00112233445566778899aabbccddeeff";
    assert_eq!(quick(&encoded(open_head.clone(), "d"), 2, key, "NULL").unwrap(), "f", "archived");
    assert_eq!(several(&[(&encoded(open_head.clone(), "d"), 2, key, "NULL")]).unwrap(), "t", "archived");
    let error = call(&encoded(open_head.clone(), "d"), 2, key).unwrap_err();
    assert!(error.contains("the session is archived"), "{error}");
    log.append(retake_testutils::restore(id, 4, "e")).unwrap();
    let current = log.head(id).unwrap().unwrap();
    let error = call(&encoded(current.clone(), "f"), 7, key).unwrap_err();
    assert!(error.contains("iteration 7 cannot be number 2"), "{error}");
    assert_eq!(call(&encoded(open_head.clone(), "g"), 2, key).unwrap(), "stale", "another head");
    for (wrong, index, key, expected) in [
        (encoded(open_head, "g"), 2, key, "NULL"),
        (encoded(current.clone(), "f"), 7, key, "NULL"),
        (encoded(current.clone(), "f"), 2, "0011", "NULL"),
        (encoded(current.clone(), "f"), 2, key, "7"),
    ] {
        assert_eq!(quick(&wrong, index, key, expected).unwrap(), "f", "{index} {key} {expected}");
        assert_eq!(several(&[(&wrong, index, key, expected)]).unwrap(), "t", "{index} {key} {expected}");
    }
    let mut foreign = current.clone();
    foreign.id = "session-2025-12-11-009".parse().unwrap();
    assert_eq!(quick(&encoded(foreign.clone(), "h"), 2, key, "NULL").unwrap(), "f", "of another session");
    assert_eq!(several(&[(&encoded(foreign.clone(), "h"), 2, key, "NULL")]).unwrap(), "t", "of another session");
    let error = call(&encoded(foreign, "h"), 2, key).unwrap_err();
    assert!(error.contains("not a record of session"), "{error}");
    assert!(call("00", 2, key).is_err());
    let error = call(&encoded(current.clone(), "short"), 2, "0011").unwrap_err();
    assert!(error.contains("a key has 16 bytes"), "{error}");
    assert_eq!(call(&encoded(current, "i"), 2, key).unwrap(), "appended");
    let next = log.head(id).unwrap().unwrap();
    let error = quick(&encoded(next.clone(), "j"), 3, key, "3").unwrap_err();
    assert!(error.contains("keys_pkey"), "a known key: {error}");
    let error = several(&[(&encoded(next.clone(), "j"), 3, key, "3")]).unwrap_err();
    assert!(error.contains("keys_pkey"), "a known key: {error}");
    assert_eq!(quick(&encoded(next, "j"), 3, "ff112233445566778899aabbccddeeff", "3").unwrap(), "t");
    // The second builds on the first; the third does not follow it, and is left out.
    let mut next = log.head(id).unwrap().unwrap();
    let mut step = |key: &str| {
        let sent = batch(Target::Existing(id), 3, key, record(id, "x", 3, key).drafts);
        let encoded = retake_log::store::carrier::encode_batch(next.clone(), &sent).unwrap();
        next = encoded.head;
        encoded.records[0].bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let (k, l) = (step("k"), step("l"));
    let keys = ["k", "l", "m"].map(|key| format!("{:0>32x}", key.as_bytes()[0]));
    let rows = [(&*k, 4, &*keys[0], "NULL"), (&*l, 5, &*keys[1], "5"), (&*k, 4, &*keys[2], "NULL")];
    assert_eq!(several(&rows).unwrap(), "fft");
    assert_eq!(log.head(id).unwrap().unwrap().last_index, Some(5));
    assert_eq!(server.sql(&format!("SELECT count(*) FROM {schema}.keys WHERE index > 3")).unwrap(), "2");
    assert_eq!(Carrier::problems(&log), Vec::<String>::new());
}

fn schema_states() {
    let server = Postgres::shared();
    let schema = server.fresh_schema();
    let url = server.url(&schema);
    let error = PgLog::open(config(&url)).unwrap_err();
    assert!(matches!(&error, Error::NoWorkspace { .. }), "{error:?}");
    assert_eq!(error.remedy(), Some(Remedy::CreateWorkspace));
    PgLog::init(config(&url), "one", "file:///nowhere", None).unwrap();
    // Repeating the request gives the same workspace; another one is refused.
    PgLog::init(config(&url), "one", "file:///nowhere", None).unwrap();
    assert!(matches!(PgLog::init(config(&url), "two", "file:///nowhere", None), Err(Error::Exists(_))));
    assert_eq!(PgLog::upgrade(config(&url)).unwrap(), Vec::<String>::new());
    for (version, remedy) in [(SCHEMA_VERSION + 1, Remedy::UpdateRetake), (SCHEMA_VERSION - 1, Remedy::UpgradeSchema)] {
        server.sql(&format!("UPDATE {schema}.settings SET schema_version = {version}")).unwrap();
        let error = PgLog::open(config(&url)).unwrap_err();
        assert!(matches!(&error, Error::SchemaVersion { found, .. } if *found == version), "{error:?}");
        assert_eq!(error.remedy(), Some(remedy));
    }
}

/// A workspace of version 1, whose application role and search paths were set up then.
fn upgraded() {
    let server = Postgres::shared();
    let (schema, url) = with_role(server);
    let id = open(&url).append(start("a", 0, "a")).unwrap().head.id;
    let downgrade = format!(
        "DROP FUNCTION {schema}.append_iterations; UPDATE {schema}.settings SET schema_version = 1; \
         CREATE ROLE other_{schema} LOGIN"
    );
    server.sql(&downgrade).unwrap();
    let error = PgLog::open(config(&url)).unwrap_err();
    assert_eq!(error.remedy(), Some(Remedy::UpgradeSchema), "{error:?}");
    assert!(PgLog::upgrade(config(&url)).is_err(), "only the owner can");
    let owner = server.url(&schema);
    assert_eq!(PgLog::upgrade(config(&owner)).unwrap().len(), 1);
    assert_eq!(PgLog::upgrade(config(&owner)).unwrap(), Vec::<String>::new(), "once");
    let log = open(&url);
    assert_eq!(log.settings().schema_version, SCHEMA_VERSION);
    let call = format!("SELECT {schema}.append_iterations('{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')");
    assert_eq!(server.sql_as(&format!("app_{schema}"), &call).unwrap(), "{}");
    assert!(server.sql_as(&format!("other_{schema}"), &call).unwrap_err().contains("permission denied"));
    let paths = format!(
        "SELECT DISTINCT proconfig FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace AND proname LIKE 'append%'"
    );
    assert_eq!(server.sql(&paths).unwrap(), format!("{{\"search_path={schema}, pg_temp\"}}"));
    log.append(record(id, "b", 1, "b")).unwrap();
    assert_eq!(Carrier::problems(&log), Vec::<String>::new());
}

fn wrong_roles() {
    let server = Postgres::start(&[]);
    let hba = "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    server.sql("CREATE ROLE ada LOGIN PASSWORD 'right'").unwrap();
    let path = server.sql("SHOW hba_file").unwrap();
    std::fs::write(path, hba).unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let with = |credentials: &str| format!("postgres://{credentials}@127.0.0.1:{}/postgres", server.port);
    super::servers::wait_until("the new rules are in force", || {
        matches!(PgLog::open(config(&with("ada:hunter2"))), Err(Error::Denied { .. }))
    });
    let error = PgLog::open(config(&with("ada:hunter2"))).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    let absent = format!("postgres://postgres@127.0.0.1:{}/absent", server.port);
    assert!(matches!(PgLog::open(config(&absent)), Err(Error::Denied { .. })));
    assert!(matches!(PgLog::open(config(&with("nobody"))), Err(Error::Denied { .. })), "no password");
    // The password file is read, and must be private.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("127.0.0.1:{}:*:ada:right\n", server.port)).unwrap();
    let url = format!("{}?passfile={}", with("ada"), file.path().display());
    assert!(matches!(PgLog::open(config(&url)), Err(Error::NoWorkspace { .. })), "the role was let in");
}

fn restored() {
    // A cluster with many more transactions than the one the dump goes to.
    let server = Postgres::start(&[]);
    server.sql("DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$").unwrap();
    PgLog::init(config(&server.url("film")), "test", "file:///nowhere", None).unwrap();
    let log = open(&server.url("film"));
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    log.append(record(id, "b", 1, "b")).unwrap();
    let before = contents(&log);
    let dump = std::process::Command::new("/usr/lib/postgresql/15/bin/pg_dump")
        .args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", "postgres", "-n", "film", "postgres"])
        .output()
        .unwrap();
    assert!(dump.status.success());
    let other = Postgres::start(&[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &dump.stdout).unwrap();
    let restored = std::process::Command::new("/usr/lib/postgresql/15/bin/psql")
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &other.port.to_string(), "-U", "postgres"])
        .arg("-f")
        .arg(file.path())
        .output()
        .unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let url = other.url("film");
    let error = PgLog::open(config(&url)).unwrap_err();
    assert!(matches!(error, Error::Restored), "{error:?}");
    assert_eq!(PgLog::upgrade(config(&url)).unwrap().len(), 1);
    let log = open(&url);
    assert_eq!(contents(&log), before);
    let follower = log.follow().unwrap();
    log.append(record(id, "c", 2, "c")).unwrap();
    let event = follower.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    assert_eq!((event.session, event.seq), (id, 3));
    assert_eq!(log.append(start("d", 0, "d")).unwrap().head.id.to_string(), "session-2025-12-11-002");
}

fn unsafe_settings() {
    let safe = open(&Postgres::shared().workspace()).health().unwrap();
    assert_eq!(safe.warnings, Vec::<String>::new());
    assert!(safe.version.starts_with("15"), "{safe:?}");
    let server = Postgres::start_with(&["fsync = off", "synchronous_commit = off", "full_page_writes = off"], &[]);
    let found = open(&server.workspace()).health().unwrap().warnings;
    for (warning, name) in found.iter().zip(["data_checksums", "fsync", "full_page_writes", "synchronous_commit"]) {
        assert!(warning.starts_with(name), "{found:?}");
    }
    assert_eq!(found.len(), 4);
}

/// A malicious superuser, or a damaged page without checksums.
fn damage() {
    let server = Postgres::shared();
    let schema = server.fresh_schema();
    PgLog::init(config(&server.url(&schema)), "test", "file:///nowhere", None).unwrap();
    let log = open(&server.url(&schema));
    let id = log.append(start("a", 0, "a")).unwrap().head.id;
    log.append(record(id, "b", 1, "b")).unwrap();
    log.append(record(id, &"long ".repeat(4000), 2, "c")).unwrap();
    let other = log.append(start("other", 0, "d")).unwrap().head.id;
    server
        .sql(&format!(
            "SET session_replication_role = replica; \
             UPDATE {schema}.records SET bytes = set_byte(bytes, 90, get_byte(bytes, 90) # 1) WHERE number = 1 AND seq = 1; \
             DELETE FROM {schema}.records WHERE number = 1 AND seq = 2; DELETE FROM {schema}.texts; \
             UPDATE {schema}.heads SET title = 'x' WHERE number = 2"
        ))
        .unwrap();
    let problems = log.verify(None).unwrap().problems.join("\n");
    for expected in ["event 1 of session-2025-12-11-001: does not match its hash", "event 2", "long text", "002"] {
        assert!(problems.contains(expected), "{expected} in\n{problems}");
    }
    // The rest can still be read.
    assert_eq!(log.trail(id).unwrap().events.len(), 2);
    assert_eq!(log.events(other, retake_log::store::Detail::Full).unwrap().len(), 2);
    assert!(matches!(log.events(id, retake_log::store::Detail::Full), Err(Error::Damaged { seq: 1, .. })));
}

fn role_recorded() {
    let server = Postgres::shared();
    let (schema, url) = with_role(server);
    open(&url).append(start("a", 0, "a")).unwrap();
    let roles = server.sql(&format!("SELECT DISTINCT role FROM {schema}.records")).unwrap();
    assert_eq!(roles, format!("app_{schema}"));
}
