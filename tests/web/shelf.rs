//! The shelf over HTTP: it never lags behind a write, files are uploaded as bytes, and exports can be opened elsewhere.

use serde_json::{Value, json};

use crate::client::{Gallery, PIXEL};

#[test]
fn the_shelf_shows_every_acknowledged_write() {
    let gallery = Gallery::new();
    let first = gallery.record("a fox");
    let id = first.split('#').next().unwrap();
    let shown = |path: &str| gallery.get(path).text().matches("class=\"card\"").count();
    assert_eq!(shown("/"), 1);
    for number in 0..70 {
        gallery.record(&format!("fox {number}"));
    }
    assert_eq!(gallery.get("/sessions/part").header("x-total"), Some("71"));
    assert_eq!(
        (shown("/sessions/part"), shown("/sessions/part?from=60"), shown("/sessions/part?from=600")),
        (60, 11, 0)
    );
    // Without scripts, links lead to the rest.
    let wall = gallery.get("/").text();
    assert!(wall.contains("<a class=\"button\" href=\"/?from=60\">More sessions</a>"), "{wall}");
    assert_eq!(shown("/?from=60"), 11);
    gallery.post("/api/archive-session", &json!({ "sessionId": id }));
    assert_eq!((shown("/?status=archived"), gallery.get("/sessions/part").header("x-total")), (1, Some("70")));
    gallery.post("/api/update-session", &json!({ "sessionId": id, "title": "Renamed", "project": "Zoo" }));
    assert!(gallery.get("/?status=archived").text().contains("Renamed"));
    assert_eq!(shown("/?status=all&project=zo"), 1);
    gallery.post("/api/restore-session", &json!({ "sessionId": id }));
    assert_eq!(shown("/?status=archived"), 0);
    let months: Value = gallery.get("/sessions/marks").json();
    assert_eq!(months[0][1], 71, "{months}");
}

#[test]
fn the_best_take_is_the_cover_unless_one_is_chosen() {
    let gallery = Gallery::new();
    let first =
        gallery.post("/api/record-iteration", &json!({ "prompt": "one", "images": [{ "data": PIXEL }] })).json();
    let id = first["session"]["id"].as_str().unwrap();
    for prompt in ["two", "three"] {
        gallery.post(
            "/api/record-iteration",
            &json!({ "prompt": prompt, "sessionId": id, "images": [{ "data": PIXEL }] }),
        );
    }
    let cover = || {
        let page = gallery.get("/").text();
        let at = page.find("data-reference=\"").unwrap() + "data-reference=\"".len();
        page[at..].split('"').next().unwrap().to_owned()
    };
    assert_eq!(cover(), format!("{id}#2"), "the newest");
    gallery.post("/api/annotate-iteration", &json!({ "reference": format!("{id}#0"), "rating": 4 }));
    assert_eq!(cover(), format!("{id}#0"), "the best rated");
    gallery.post("/api/annotate-iteration", &json!({ "reference": format!("{id}#1"), "addTags": ["cover"] }));
    assert_eq!(cover(), format!("{id}#1"), "the chosen one");
}

#[test]
fn files_come_in_as_bytes_once_and_only_from_this_page() {
    let gallery = Gallery::new();
    let file = json!({ "files": [{ "name": "../../dropped.png", "data": PIXEL, "modified": 1_700_000_000_000_u64 }] });
    let brought = gallery.post("/import", &file).json();
    assert_eq!((&brought["iterations"], &brought["skipped"]), (&json!(1), &json!(0)), "{brought}");
    assert!(gallery.get("/").text().contains("dropped.png"), "a card is called by its file");
    assert_eq!(gallery.post("/import", &file).json()["skipped"], 1);
    assert_eq!(gallery.sessions(), 1);
    for refused in
        [json!({ "files": ["/etc/passwd"] }), json!({ "files": [{ "path": "/etc/passwd" }] }), json!({ "files": [] })]
    {
        assert_eq!(gallery.post("/import", &refused).status, 400, "{refused}");
    }
    let foreign = [("Origin", "http://elsewhere.example"), ("Content-Type", "application/json")];
    assert_eq!(gallery.request("POST", "/import", &foreign, file.to_string().as_bytes()).status, 403);
    assert_eq!(gallery.request("POST", "/import", &[("Content-Type", "text/plain")], b"{}").status, 415);
    assert_eq!(gallery.get("/import").status, 405);
}

#[test]
fn exports_are_archives_or_audit_bundles() {
    let gallery = Gallery::new();
    let made =
        gallery.post("/api/record-iteration", &json!({ "prompt": "a fox", "images": [{ "data": PIXEL }] })).json();
    let (id, reference) = (made["session"]["id"].as_str().unwrap(), made["reference"].as_str().unwrap());
    let reference = reference.replace('#', "%23");
    for (path, start) in [
        (format!("/export/sessions.zip?of={id}"), b"PK\x03\x04"),
        (format!("/export/images.zip?of={reference}"), b"PK\x03\x04"),
        (format!("/export/proof.tar?of={id}"), b"READ"),
    ] {
        let answer = gallery.get(&path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-disposition").unwrap().starts_with("attachment"), "{path}");
        assert_eq!(&answer.body[..4], start, "{path}");
        assert_eq!(answer.header("content-length").unwrap(), answer.body.len().to_string(), "{path}");
    }
    for (path, status) in [
        ("/export/sessions.zip", 400),
        ("/export/sessions.zip?of=session-1999-01-01-001", 404),
        ("/export/sessions.zip?of=../../etc", 400),
        ("/export/anything?of=x", 404),
    ] {
        assert_eq!(gallery.get(path).status, status, "{path}");
    }
}

#[test]
fn text_is_compressed_for_those_who_accept_it() {
    let gallery = Gallery::new();
    gallery.record("a fox");
    let plain = gallery.get("/");
    assert_eq!(plain.header("content-encoding"), None);
    let packed = gallery.request("GET", "/", &[("Accept-Encoding", "br, gzip;q=0.8")], b"");
    assert_eq!((packed.status, packed.header("content-encoding")), (200, Some("gzip")));
    assert!(packed.body.len() * 2 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
    assert_eq!(&packed.body[..2], b"\x1f\x8b");
}

#[test]
fn a_comparison_link_works_if_an_iteration_is_missing() {
    let gallery = Gallery::new();
    let made = json!({
        "prompt": "a batch", "title": "Foxes", "images": [{ "data": PIXEL }, { "data": PIXEL }],
        "seed": "4001", "parameters": { "seeds": ["4001", "4002"] },
    });
    let reference =
        gallery.post("/api/record-iteration", &made).json()["reference"].as_str().unwrap().replace('#', "%23");
    let page = gallery.get(&format!("/compare?refs={reference},{reference}/1,session-1999-01-01-001%230&a=-4&b=x"));
    assert_eq!(page.status, 200);
    let text = page.text();
    assert!(text.contains("Foxes #0 · 1 of 2") && text.contains("Foxes #0 · 2 of 2"), "{text}");
    assert!(text.contains("is missing and left out"), "{text}");
    assert!(text.contains("4001") && text.contains("4002"), "each image has its own seed: {text}");
    assert_eq!(gallery.get(&format!("/compare?refs={reference}/7")).status, 200);
    assert_eq!(gallery.get("/compare").status, 200);
}

#[test]
fn the_workspace_is_checked_on_demand() {
    let gallery = Gallery::new();
    gallery.record("a fox");
    assert_eq!(gallery.post("/workspace/check", &json!({})).status, 200);
    let state = loop {
        let state = gallery.get("/workspace/check").json();
        if state["running"] == false {
            break state;
        }
        std::thread::yield_now();
    };
    assert!(state["verdict"].as_str().unwrap().starts_with("Everything checks out"), "{state}");
    assert_eq!(gallery.post("/workspace/read", &json!({})).status, 200);
}

#[test]
fn paths_are_shown_only_at_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let shown = |gallery: &Gallery, token: &[(&str, &str)]| {
        let made = json!({ "prompt": "a fox", "images": [{ "data": PIXEL }] }).to_string();
        let headers = [token, &[("Content-Type", "application/json")]].concat();
        let made = gallery.request("POST", "/api/record-iteration", &headers, made.as_bytes()).json();
        let address = format!("/sessions/{}", made["reference"].as_str().unwrap().replace('#', "/"));
        let pages = ["", "/part"].map(|part| gallery.request("GET", &format!("{address}{part}"), token, b""));
        pages.map(|page| (page.status, page.text().contains("Copy path")))
    };
    assert_eq!(shown(&Gallery::new(), &[]), [(200, true); 2]);
    let gallery = Gallery::serve(dir.path(), &["--token", "sesame street 1969"]);
    assert_eq!(shown(&gallery, &[("Authorization", "Bearer sesame street 1969")]), [(200, false); 2]);
}

#[test]
fn people_without_the_token_get_a_page_and_programs_json() {
    let dir = tempfile::tempdir().unwrap();
    let gallery = Gallery::serve(dir.path(), &["--token", "sesame street 1969"]);
    let page = gallery.request("GET", "/", &[("Accept", "text/html,*/*")], b"");
    assert_eq!(page.status, 401);
    assert!(page.text().contains("<h1>This gallery asks for a token</h1>"), "{page}");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert_eq!(gallery.request("GET", "/", &[], b"").json()["error"]["kind"], "invalid");
    assert_eq!(gallery.request("GET", "/?token=sesame%20street%201969", &[], b"").status, 303);
}
