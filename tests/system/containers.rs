//! Processes in separate PID namespaces, like containers, that share one workspace. All of them have the same process
//! id, so nothing may be named after it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use libtest_mimic::Trial;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use serde_json::Value;

use super::{retake, succeeds, trial};

/// The number of containers that record concurrently.
const CONTAINERS: u64 = 6;
/// The number of images that each of them records.
const ROUNDS: u64 = 6;
/// The size of an image: large enough that writing one takes a while.
const IMAGE_BYTES: usize = 3_000_000;

pub(crate) fn trials() -> Vec<Trial> {
    let permitted = succeeds(Command::new("unshare").args(["-Upf", "--map-root-user", "true"]));
    let missing = (!permitted).then_some("needs `unshare` and permission to make PID namespaces");
    vec![trial("containers_record_images_into_one_workspace", missing, containers_record_images_into_one_workspace)]
}

fn containers_record_images_into_one_workspace() {
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    assert!(succeeds(retake(&workspace).args(["record", "first"])));
    let mut owner = retake(&workspace).arg("mcp").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let acknowledged: Vec<(Value, Vec<u8>)> = thread::scope(|scope| {
        let containers: Vec<_> = (0..CONTAINERS)
            .map(|container| {
                let (home, workspace) = (home.path(), &workspace);
                scope.spawn(move || {
                    (0..ROUNDS).map(|round| record_in_container(home, workspace, container, round)).collect::<Vec<_>>()
                })
            })
            .collect();
        containers.into_iter().flat_map(|container| container.join().unwrap()).collect()
    });
    drop(owner.stdin.take());
    owner.wait().unwrap();

    assert_eq!(acknowledged.len() as u64, CONTAINERS * ROUNDS);
    for (answer, bytes) in &acknowledged {
        let reference = answer["reference"].as_str().unwrap_or_else(|| panic!("not acknowledged: {answer}"));
        let hash = blake3::hash(bytes).to_hex();
        let (first, rest) = hash.split_at(2);
        let kept = fs::read(workspace.join("images").join(first).join(rest)).unwrap();
        assert!(kept == *bytes, "the image of {reference} holds other bytes");
    }
    assert!(succeeds(retake(&workspace).arg("verify")));
    let left: Vec<_> = fs::read_dir(workspace.join("images"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().ends_with(".tmp"))
        .collect();
    assert!(left.is_empty(), "temporary files were left: {left:?}");
}

/// Records a unique image, and returns the response and the bytes.
fn record_in_container(home: &Path, workspace: &Path, container: u64, round: u64) -> (Value, Vec<u8>) {
    let mut bytes = vec![0; IMAGE_BYTES];
    StdRng::seed_from_u64(container * 1000 + round).fill_bytes(&mut bytes);
    // Starts like a TIFF image, since only images are recorded.
    bytes[..4].copy_from_slice(b"II*\0");
    let image = home.join(format!("{container}-{round}.tif"));
    fs::write(&image, &bytes).unwrap();
    let output = Command::new("unshare")
        .args(["-Upf", "--map-root-user"])
        .arg(env!("CARGO_BIN_EXE_retake"))
        .arg("--workspace")
        .arg(workspace)
        .args(["record", &format!("container {container}, round {round}"), "--image"])
        .arg(&image)
        .arg("--json")
        .env("USER", "ada")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    (serde_json::from_slice(&output.stdout).unwrap(), bytes)
}
