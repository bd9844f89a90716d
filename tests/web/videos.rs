//! Videos over HTTP: played in parts, with their own media type, in pages that allow it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use retake_testutils::videos::{MP4, WEBM};
use serde_json::json;

use crate::client::Gallery;

/// Records a video, and returns its reference and hash.
fn record(gallery: &Gallery, bytes: &[u8]) -> (String, String) {
    let body = json!({ "prompt": "a fox runs", "images": [{ "data": STANDARD.encode(bytes) }] });
    let recorded = gallery.post("/api/record-iteration", &body);
    assert_eq!(recorded.status, 200, "{recorded}");
    let reference = recorded.json()["reference"].as_str().unwrap().to_owned();
    let view = gallery.get(&format!("/api/get-iteration?reference={}", reference.replace('#', "%23"))).json();
    (reference, view["images"][0]["hash"].as_str().unwrap().to_owned())
}

#[test]
fn a_video_is_served_in_the_parts_that_a_player_asks_for() {
    let gallery = Gallery::new();
    for (bytes, mime_type) in [(MP4, "video/mp4"), (WEBM, "video/webm")] {
        let (_, hash) = record(&gallery, bytes);
        let address = format!("/images/{hash}");
        let part = |range: &str| gallery.request("GET", &address, &[("Range", range)], b"");
        let whole = gallery.get(&address);
        assert_eq!((whole.status, &whole.body[..]), (200, bytes));
        assert_eq!(whole.header("content-type"), Some(mime_type));
        assert_eq!(
            (whole.header("accept-ranges"), whole.header("x-content-type-options")),
            (Some("bytes"), Some("nosniff"))
        );
        assert!(whole.header("content-disposition").unwrap().starts_with("inline") && whole.header("etag").is_some());
        let last = bytes.len() - 1;
        for (range, from, to) in [("bytes=0-", 0, last), ("bytes=100-199", 100, 199), ("bytes=-10", last - 9, last)] {
            let answer = part(range);
            assert_eq!((answer.status, &answer.body[..]), (206, &bytes[from..=to]), "{range}");
            let described = format!("bytes {from}-{to}/{}", bytes.len());
            assert_eq!(answer.header("content-range"), Some(described.as_str()));
        }
        let beyond = part("bytes=99999999-");
        assert_eq!((beyond.status, beyond.body.len()), (416, 0));
        assert_eq!(beyond.header("content-range"), Some(format!("bytes */{}", bytes.len()).as_str()));
        let other = gallery.request("GET", &address, &[("Range", "bytes=5-9"), ("If-Range", "\"other\"")], b"");
        assert_eq!((other.status, other.body.len()), (200, bytes.len()));
        let known = gallery.request("GET", &address, &[("If-None-Match", &format!("\"{hash}\""))], b"");
        assert_eq!((known.status, known.body.len()), (304, 0));
        let head = gallery.request("HEAD", &address, &[], b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), Some(bytes.len().to_string().as_str()));
        let poster = gallery.get(&format!("/thumbs/{hash}"));
        assert_eq!((poster.status, poster.header("content-type")), (200, Some("image/jpeg")));
    }
}

#[test]
fn pages_play_a_video_and_may_do_so() {
    let gallery = Gallery::new();
    let (reference, hash) = record(&gallery, WEBM);
    let page = gallery.get(&format!("/sessions/{}", reference.replace('#', "/")));
    let text = page.text();
    assert!(
        text.contains(&format!("<video class=\"picture\" src=\"/images/{hash}\" poster=\"/thumbs/{hash}\"")),
        "{text}"
    );
    assert!(text.contains(&format!("data-images=\"{hash}:64:48:0:v\"")), "{text}");
    assert!(page.header("content-security-policy").unwrap().contains("media-src 'self'"));
    for path in ["/", &format!("/sessions/{}/grid", reference.split('#').next().unwrap())] {
        assert!(gallery.get(path).text().contains(&format!("/thumbs/{hash}")), "{path}");
    }
    let still = gallery.record("a still").replace('#', "%23");
    let compared = gallery.get(&format!("/compare?refs={},{still}", reference.replace('#', "%23"))).text();
    assert!(compared.contains("only its poster is compared"), "{compared}");
    assert!(!compared.contains(&format!("data-full=\"/images/{hash}\"")));
    let seen = gallery.get(&format!("/compare/seen?refs={},{still}", reference.replace('#', "%23")));
    assert_eq!(seen.status, 200);
    assert!(seen.text().contains("cannot be compared by its pixels"), "{seen}");
}
