//! `/api`, pictures and pages: what is asked for comes back, as the tools say it.

use serde_json::json;

use crate::client::{Gallery, PIXEL};

#[test]
fn the_verbs_answer_as_the_tools_do() {
    let gallery = Gallery::new();
    let empty = gallery.get("/api/list-sessions");
    assert_eq!(empty.status, 200);
    assert_eq!(empty.json()["sessions"], json!([]));

    let reference = gallery.record("a cat in the snow");
    let id = reference.split('#').next().unwrap();
    let list = gallery.get("/api/list-sessions?limit=1&status=active").json();
    assert_eq!(list["sessions"][0]["id"], id);
    assert_eq!(gallery.post("/api/list-sessions", &json!({ "limit": 1 })).json()["totalSessions"], 1);

    let rated = gallery.post("/api/annotate-iteration", &json!({ "reference": reference, "rating": 4 }));
    assert_eq!(rated.json()["annotations"]["rating"], 4);
    let archived = gallery.post("/api/archive-session", &json!({ "sessionId": id, "reason": "done" }));
    assert_eq!(archived.json()["archived"], true);

    let refused = gallery.post("/api/record-iteration", &json!({ "prompt": "more", "sessionId": id }));
    assert_eq!((refused.status, refused.json()["error"]["kind"].as_str()), (409, Some("archived")));
    let wrong = gallery.get("/api/list-sessions?limit=many");
    assert_eq!((wrong.status, wrong.json()["error"]["kind"].as_str()), (400, Some("invalid")));
    let absent = gallery.get("/api/audit-session?sessionId=session-2001-01-01-001");
    assert_eq!((absent.status, absent.json()["error"]["kind"].as_str()), (404, Some("notFound")));
    let unknown = gallery.get("/api/delete-session");
    assert_eq!((unknown.status, unknown.json()["error"]["kind"].as_str()), (404, Some("notFound")));
    assert_eq!(gallery.get("/api/archive-session").status, 405, "what writes is not asked with GET");
    assert_eq!(gallery.request("DELETE", "/api/list-sessions", &[], b"").status, 405);

    let trail = gallery.get(&format!("/api/audit-session?sessionId={id}")).json();
    assert_eq!(trail["events"][1]["actor"]["user"], "ada");
    assert!(trail["events"][1]["actor"]["client"].as_str().unwrap().starts_with("retake-web "));
}

#[test]
fn the_verbs_are_described() {
    let gallery = Gallery::new();
    let document = gallery.get("/api/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    for verb in ["list-sessions", "record-iteration", "get-iteration", "archive-session"] {
        let path = &document["paths"][format!("/api/{verb}")];
        assert!(path["post"]["description"].as_str().unwrap().len() > 40, "{verb}");
    }
}

#[test]
fn a_picture_comes_back_to_the_byte_and_is_kept_by_the_browser() {
    use base64::Engine;
    let gallery = Gallery::new();
    let reference = gallery.record("a cat").replace('#', "%23");
    let view = gallery.get(&format!("/api/get-iteration?reference={reference}")).json();
    let hash = view["images"][0]["hash"].as_str().unwrap();
    let picture = gallery.get(&format!("/images/{hash}"));
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/png")));
    assert_eq!(picture.body, base64::engine::general_purpose::STANDARD.decode(PIXEL).unwrap());
    assert!(picture.header("cache-control").unwrap().contains("immutable"));
    let tag = picture.header("etag").unwrap();
    assert_eq!(gallery.request("GET", &format!("/images/{hash}"), &[("If-None-Match", tag)], b"").status, 304);
    assert_eq!(gallery.get(&format!("/thumbs/{hash}")).status, 200);
    assert_eq!(gallery.request("HEAD", &format!("/images/{hash}"), &[], b"").body, b"");
}

#[test]
fn text_that_someone_recorded_is_text_on_every_page() {
    let gallery = Gallery::new();
    let hostile = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>";
    let body = json!({
        "prompt": hostile, "title": hostile, "project": hostile, "model": hostile, "sampler": hostile,
        "negativePrompt": hostile, "provider": hostile, "parameters": { hostile: hostile },
        "loras": [{ "name": hostile, "weight": 1.0 }],
    });
    let recorded = gallery.post("/api/record-iteration", &body).json();
    let id = recorded["session"]["id"].as_str().unwrap();
    let note = json!({ "reference": recorded["reference"], "tags": [hostile], "note": hostile });
    assert_eq!(gallery.post("/api/annotate-iteration", &note).status, 200);
    assert_eq!(gallery.post("/api/archive-session", &json!({ "sessionId": id, "reason": hostile })).status, 200);
    for path in ["/?status=all".to_owned(), "/sessions/part?status=all".to_owned()] {
        let page = gallery.get(&path);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.text().contains("<img src=x") && !page.text().contains("<script>alert"), "{path}");
        assert!(page.text().contains("&lt;img src=x"), "{path} does not show it");
    }
}
