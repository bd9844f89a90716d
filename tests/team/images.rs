//! Originals in a real bucket and in a shared directory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use retake_log::model::Hash;
use retake_team::{ImageLocation, RemoteImages};

use super::processes::CHILD;
use super::s3::{self, ACCESS_KEY, S3, SECRET_KEY};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("images::a_shared_directory_keeps_and_checks_originals", || {
            shared_directory();
            Ok(())
        }),
        s3_trial("images::a_bucket_keeps_and_checks_originals", "bucket"),
        s3_trial("images::a_killed_storage_node_costs_nothing_acknowledged", "nodes"),
        s3_trial("images::wrong_buckets_and_credentials_are_named", "errors"),
    ]
}

/// Credentials come from the environment, which belongs to the process, so each test is a process.
fn s3_trial(name: &str, case: &'static str) -> Trial {
    let missing = s3::missing();
    let test = move || {
        match case {
            "nodes" => nodes(),
            "errors" => {
                run("errors", &credentials(S3::shared()), 0);
                let wrong = [("AWS_SECRET_ACCESS_KEY", "wrong"), ("AWS_ACCESS_KEY_ID", "unknown")];
                for (name, value) in wrong {
                    let mut environment = credentials(S3::shared());
                    environment.insert(name, value.to_owned());
                    run("credentials", &environment, 0);
                }
            }
            case => run(case, &credentials(S3::shared()), 0),
        }
        Ok(())
    };
    Trial::test(name, test).with_kind(if missing { s3::HOW_TO_GET_S3 } else { "" }).with_ignored_flag(missing)
}

fn credentials(s3: &S3) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ("AWS_ENDPOINT_URL", s3.endpoint()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ])
}

/// Runs a part of a test in a separate process.
fn run(case: &str, environment: &BTreeMap<&'static str, String>, from: u32) {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .env(CHILD, format!("images {case} {from}"))
        .env("HOME", home.path())
        .envs(environment)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case}: {errors}");
    assert!(!errors.contains(SECRET_KEY));
}

/// The part of a test that runs in a separate process.
pub(crate) fn child(arguments: &str) {
    let (case, from) = arguments.split_once(' ').unwrap();
    let from: u32 = from.parse().unwrap();
    let cache = tempfile::tempdir().unwrap();
    match case {
        "bucket" => {
            let images = open("s3://studio/film", cache.path());
            keeps_and_checks(&images);
            large_files(&images);
            // Another prefix is another workspace.
            let other = open("s3://studio/other", cache.path().join("other").as_path());
            assert!(!other.contains(Hash::of(b"a picture")).unwrap());
        }
        "write" => {
            let images = open("s3://studio/nodes", cache.path());
            for n in from..from + 20 {
                images.put(&body(n)).unwrap();
            }
        }
        "read" => {
            let images = open("s3://studio/nodes", cache.path());
            for n in 0..from {
                let path = images.fetch(Hash::of(&body(n))).unwrap();
                assert_eq!(std::fs::read(path).unwrap(), body(n));
                images.check(Hash::of(&body(n))).unwrap();
            }
        }
        "errors" => {
            let error = open("s3://absent", cache.path()).put(b"x").unwrap_err();
            assert!(error.to_string().contains("the bucket does not exist"), "{error}");
        }
        "credentials" => {
            let error = open("s3://studio", cache.path()).put(b"x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            assert!(error.to_string().contains("credentials"), "{error}");
        }
        other => panic!("{other}"),
    }
}

fn open(location: &str, cache: &Path) -> RemoteImages {
    let location: ImageLocation = location.parse().unwrap();
    RemoteImages::open(location, cache, 1 << 30).unwrap()
}

fn body(n: u32) -> Vec<u8> {
    (0..200_000u32).flat_map(|at| (at.wrapping_mul(n + 7)).to_le_bytes()).take(300_000).collect()
}

fn keeps_and_checks(images: &RemoteImages) {
    images.check_access().unwrap();
    let hash = images.put(b"a picture").unwrap();
    assert_eq!(images.put(b"a picture").unwrap(), hash, "a repeated upload changes nothing");
    for _ in 0..2 {
        assert_eq!(std::fs::read(images.fetch(hash).unwrap()).unwrap(), b"a picture");
    }
    images.check(hash).unwrap();
    assert!(images.contains(hash).unwrap());
    let absent = Hash::of(b"absent");
    assert!(!images.contains(absent).unwrap());
    assert_eq!(images.fetch(absent).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(images.check(absent).unwrap_err().kind(), ErrorKind::NotFound);
}

fn large_files(images: &RemoteImages) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large");
    let bytes: Vec<u8> = (0..40u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
    std::fs::write(&path, &bytes).unwrap();
    let hash = Hash::of(&bytes);
    images.put_file(hash, &path).unwrap();
    images.put_file(hash, &path).unwrap();
    images.check(hash).unwrap();
    assert_eq!(std::fs::read(images.fetch(hash).unwrap()).unwrap(), bytes);
    // A file that does not match its hash is not uploaded under that name.
    let wrong = Hash::of(b"something else");
    assert_eq!(images.put_file(wrong, &path).unwrap_err().kind(), ErrorKind::InvalidData);
    assert!(!images.contains(wrong).unwrap());
}

fn shared_directory() {
    let dir = tempfile::tempdir().unwrap();
    let images = open(&format!("file://{}/images", dir.path().display()), &dir.path().join("cache"));
    keeps_and_checks(&images);
    large_files(&images);
    let path = images.fetch(Hash::of(b"a picture")).unwrap();
    std::fs::write(path, b"a pictur3").unwrap();
    assert_eq!(images.fetch(Hash::of(b"a picture")).unwrap_err().kind(), ErrorKind::InvalidData);
    images.put(b"a picture").unwrap();
    images.check(Hash::of(b"a picture")).unwrap();
}

/// Every acknowledged upload can be read while one node is down, and after all of them were killed.
fn nodes() {
    // A separate cluster, since other tests use the shared one at the same time.
    let s3 = S3::start();
    let environment = credentials(&s3);
    run("write", &environment, 0);
    s3.kill_mirror();
    run("read", &environment, 20);
    s3.restart_mirror();
    run("write", &environment, 20);
    s3.kill_main();
    s3.restart_main();
    run("read", &environment, 40);
}
