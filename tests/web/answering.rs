//! `/api`, images and pages: requests return what the tools return.

use serde_json::json;

use crate::client::{Gallery, PIXEL};

#[test]
fn the_endpoints_return_what_the_tools_return() {
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
fn the_endpoints_are_described() {
    let gallery = Gallery::new();
    let document = gallery.get("/api/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    for verb in ["list-sessions", "record-iteration", "get-iteration", "archive-session"] {
        let path = &document["paths"][format!("/api/{verb}")];
        assert!(path["post"]["description"].as_str().unwrap().len() > 40, "{verb}");
    }
}

#[test]
fn an_image_is_served_byte_for_byte_and_cached() {
    use base64::Engine;
    let gallery = Gallery::new();
    let reference = gallery.record("a cat").replace('#', "%23");
    let view = gallery.get(&format!("/api/get-iteration?reference={reference}")).json();
    let hash = view["images"][0]["hash"].as_str().unwrap();
    let picture = gallery.get(&format!("/images/{hash}"));
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/png")));
    assert_eq!(picture.body, base64::engine::general_purpose::STANDARD.decode(PIXEL).unwrap());
    assert!(picture.header("cache-control").unwrap().contains("immutable"));
    let named = format!("inline; filename=\"{}.png\"", &hash[..12]);
    assert_eq!(picture.header("content-disposition"), Some(named.as_str()), "a name that people can read");
    let tag = picture.header("etag").unwrap();
    assert_eq!(gallery.request("GET", &format!("/images/{hash}"), &[("If-None-Match", tag)], b"").status, 304);
    assert_eq!(gallery.get(&format!("/thumbs/{hash}")).status, 200);
    assert_eq!(gallery.request("HEAD", &format!("/images/{hash}"), &[], b"").body, b"");
}

#[test]
fn recorded_text_is_escaped_on_every_page() {
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

#[test]
fn a_search_shows_iterations_or_the_sessions_they_are_in() {
    let gallery = Gallery::new();
    let first = gallery.record("a lighthouse at dusk");
    let id = first.split('#').next().unwrap();
    for prompt in ["a lighthouse at dawn", "a harbour"] {
        gallery.post("/api/record-iteration", &json!({ "prompt": prompt, "sessionId": id }));
    }
    gallery.record("a light rain");
    let heading = |path: &str| {
        let page = gallery.get(path).text();
        let start = page.find("<h1").map(|at| at + page[at..].find('>').unwrap() + 1).unwrap();
        page[start..start + page[start..].find("</h1>").unwrap()].to_owned()
    };
    assert_eq!(heading("/search?q=lighthouse"), "2 iterations");
    assert_eq!(heading("/search?q=lighthouse&by=session"), "1 session");
    assert!(gallery.get("/search?q=lighthouse&by=session").text().contains("2/3<span"));
    assert_eq!(heading("/search?q=light"), "3 iterations", "also inside another word");
    assert_eq!(heading("/search?q=%22light%22"), "1 iteration", "in quotes it is the whole word");
    assert_eq!(heading("/search?q=light&typing=1"), "3 iterations", "Enter changes nothing");
    assert_eq!(heading("/search?q=li&typing=1"), "3 iterations", "a short word that is being written is a beginning");
    assert_eq!(heading("/search?q=light&typing=1&by=session"), "2 sessions");
    assert_eq!(heading("/search?q=%22light%22%20&typing=1"), "1 iteration", "and stays one while more is typed");
    // A jump into the middle of the results.
    let part = gallery.get("/search/part?q=light&typing=1&skip=2");
    assert!(part.text().contains("a lighthouse at dusk") && !part.text().contains("at dawn"), "{part}");
    for unfinished in ["model:", "%22at%20ni", "rating:%3E", "%28a", "a%20OR"] {
        let page = gallery.get(&format!("/search?q={unfinished}&typing=1"));
        assert_eq!(page.status, 200, "{unfinished}");
        assert!(page.text().contains("data-unfinished="), "{unfinished}");
    }
    assert_eq!(gallery.get("/search?q=a&status=nonsense").status, 200);
}

#[test]
fn projects_are_counted() {
    let gallery = Gallery::new();
    for (prompt, project) in [("a", "tea"), ("b", "tea"), ("c", "<b>fox</b>")] {
        gallery.post("/api/record-iteration", &json!({ "prompt": prompt, "project": project }));
    }
    let tea = gallery.get("/api/list-sessions?project=tea").json();
    gallery.post("/api/archive-session", &json!({ "sessionId": tea["sessions"][0]["id"] }));
    let page = |path: &str| gallery.get(path).text();
    assert!(page("/projects?status=all").contains("2 sessions, 2 iterations in all"));
    let active = page("/projects");
    assert!(active.contains("1 session, 2 iterations in all") && active.contains("/?project=tea"), "{active}");
    assert!(active.contains("&lt;b&gt;fox") && !active.contains("<b>fox"), "{active}");
    assert!(!page("/projects?status=archived").contains("fox"));
}
