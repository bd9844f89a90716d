//! Images by hash, wherever their files are: stored in the workspace, linked, changed, or missing.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::client::{Gallery, PIXEL, retake};

/// Returns the hash of an iteration's first image.
fn hash_of(gallery: &Gallery, reference: &str) -> String {
    let view = gallery.get(&format!("/api/get-iteration?reference={}", reference.replace('#', "%23"))).json();
    view["images"][0]["hash"].as_str().unwrap().to_owned()
}

fn png(shade: u8) -> Vec<u8> {
    retake_testutils::images::plain(64, 48, shade)
}

/// Creates a workspace with one linked image.
fn linked(workspace: &Path, file: &Path) {
    fs::write(file, png(90)).unwrap();
    let ran = retake(workspace, &["import", "--link"]).arg(file.parent().unwrap()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_linked_original_is_served_until_its_file_is_another_or_gone() {
    let (workspace, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("fox.png");
    linked(workspace.path(), &file);
    let gallery = Gallery::serve(workspace.path(), &[]);
    // As a browser does: first the page, then its images.
    let wall = gallery.get("/").text();
    let hash = wall.split("/thumbs/").nth(1).unwrap()[..64].to_owned();
    let original = gallery.get(&format!("/images/{hash}"));
    assert_eq!((original.status, original.body == fs::read(&file).unwrap()), (200, true));
    assert_eq!(gallery.get(&format!("/thumbs/{hash}")).status, 200);

    fs::write(&file, png(200)).unwrap();
    let changed = gallery.get(&format!("/images/{hash}"));
    assert_eq!((changed.status, changed.json()["error"]["kind"].as_str()), (410, Some("damaged")), "{changed}");
    assert_ne!(changed.body, fs::read(&file).unwrap(), "what it holds now is not what was recorded");
    fs::remove_file(&file).unwrap();
    let gone = gallery.get(&format!("/images/{hash}"));
    assert_eq!((gone.status, gone.json()["error"]["kind"].as_str()), (404, Some("notFound")), "{gone}");
    for answer in [&changed, &gone] {
        assert!(
            !answer.text().contains("fox.png") && answer.header("cache-control") == Some("private, no-cache"),
            "{answer}"
        );
    }
    // Its thumbnail was created before, and still shows the original.
    assert_eq!(gallery.get(&format!("/thumbs/{hash}")).status, 200);
    assert_eq!(gallery.get("/").status, 200);
}

#[test]
fn a_linked_original_is_found_by_every_page_of_a_server_that_has_just_started() {
    let (workspace, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    linked(workspace.path(), &folder.path().join("fox.png"));
    let (id, hash) = {
        let gallery = Gallery::serve(workspace.path(), &[]);
        let id = gallery.get("/api/list-sessions").json()["sessions"][0]["id"].as_str().unwrap().to_owned();
        (id.clone(), hash_of(&gallery, &format!("{id}#0")))
    };
    for page in [
        "/".to_owned(),
        format!("/sessions/{id}"),
        format!("/sessions/{id}/strip"),
        format!("/compare?refs={id}%230,{id}%230"),
        "/search?q=".to_owned(),
    ] {
        fs::remove_dir_all(workspace.path().join("cache")).unwrap();
        let gallery = Gallery::serve(workspace.path(), &[]);
        let shown = gallery.get(&page);
        assert!(shown.status == 200 && shown.text().contains(&hash), "{page}: {shown}");
        assert_eq!(gallery.get(&format!("/thumbs/{hash}")).status, 200, "behind {page}");
    }
}

#[test]
fn a_heat_map_shows_where_two_differ() {
    let gallery = Gallery::new();
    let record = |bytes: &[u8]| {
        let images = json!([{ "data": STANDARD.encode(bytes), "mimeType": "image/png" }]);
        let answer = gallery.post("/api/record-iteration", &json!({ "prompt": "a fox", "images": images }));
        answer.json()["reference"].as_str().unwrap().to_owned()
    };
    let (dark, light) = (record(&png(20)), record(&png(220)));
    let (one, other) = (hash_of(&gallery, &dark), hash_of(&gallery, &light));
    let map = gallery.get(&format!("/heat/{one}/{other}"));
    assert_eq!((map.status, map.header("content-type")), (200, Some("image/png")));
    let map_pixels = image::load_from_memory(&map.body).unwrap().to_rgb8();
    assert_eq!(map_pixels.dimensions(), (64, 48));
    let [red, _, blue] = map_pixels.get_pixel(32, 24).0;
    assert!(red > blue, "all of it changed, and is warm: {red} {blue}");
    let tag = map.header("etag").unwrap().to_owned();
    assert_eq!(gallery.request("GET", &format!("/heat/{one}/{other}"), &[("If-None-Match", &tag)], b"").status, 304);
    let still = gallery.get(&format!("/heat/{one}/{one}"));
    let [red, green, blue] = image::load_from_memory(&still.body).unwrap().to_rgb8().get_pixel(32, 24).0;
    assert!(
        red.abs_diff(green) < 40 && green.abs_diff(blue) < 40,
        "nothing changed, and is grey: {red} {green} {blue}"
    );

    let seen = gallery.get(&format!("/compare/seen?refs={}", format!("{dark},{light}").replace('#', "%23"))).text();
    assert!(
        seen.contains("Changed area") && seen.contains("100.0 %") && seen.contains("data-box=\"0 0 64 48\""),
        "{seen}"
    );

    let unknown = "0".repeat(64);
    assert_eq!(gallery.get(&format!("/heat/{one}/{unknown}")).status, 404);
    assert_eq!(gallery.get(&format!("/heat/{one}/..%2f..%2fetc")).status, 404);
}

#[test]
fn undecodable_images_are_kept_and_reported() {
    let gallery = Gallery::new();
    let cut = &STANDARD.decode(PIXEL).unwrap()[..40];
    let images = json!([{ "data": STANDARD.encode(cut), "mimeType": "image/png" }]);
    let recorded = gallery.post("/api/record-iteration", &json!({ "prompt": "half a pixel", "images": images })).json();
    let reference = recorded["reference"].as_str().unwrap();
    let hash = hash_of(&gallery, reference);
    assert_eq!(gallery.get(&format!("/images/{hash}")).body, cut);
    let thumb = gallery.get(&format!("/thumbs/{hash}"));
    assert_eq!((thumb.status, thumb.json()["error"]["kind"].as_str()), (400, Some("invalid")), "{thumb}");
    let whole =
        gallery.post("/api/record-iteration", &json!({ "prompt": "a pixel", "images": [{ "data": PIXEL }] })).json();
    let both = format!("{reference},{}", whole["reference"].as_str().unwrap());
    let seen = format!("/compare/seen?refs={}", both.replace('#', "%23"));
    assert!(gallery.get(&seen).text().contains("cannot be compared by its pixels"));
}

#[test]
fn the_text_to_paste_is_the_one_embedded_in_exports() {
    let gallery = Gallery::new();
    let body = json!({
        "prompt": "a fox, <lora:fur:0.8>", "negativePrompt": "blurry", "steps": 30, "sampler": "Euler a", "seed": "42",
        "guidanceScale": 7, "width": 512, "height": 768, "model": "a, b", "loras": [{ "name": "fur", "weight": 0.8 }],
    });
    let reference =
        gallery.post("/api/record-iteration", &body).json()["reference"].as_str().unwrap().replace('#', "/");
    let text = gallery.get(&format!("/sessions/{reference}/a1111"));
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(
        text.text(),
        "a fox, <lora:fur:0.8>\nNegative prompt: blurry\n\
         Steps: 30, Sampler: Euler a, CFG scale: 7, Seed: 42, Size: 512x768, Model: \"a, b\", App: Retake"
    );
}
