//! Malicious requests: each is refused, nothing is recorded, and nothing on the disk leaks.

use std::io::{Read, Write};

use crate::client::Gallery;

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn a_foreign_host_is_refused() {
    let gallery = Gallery::new();
    let port = gallery.host.rsplit(':').next().unwrap();
    for host in [
        "evil.example",
        "evil.example:7373",
        "127.0.0.1.evil.example",
        "192.168.1.2",
        "0.0.0.0",
        "localhost.evil.example",
    ] {
        assert_eq!(gallery.request("GET", "/", &[("Host", host)], b"").status, 403, "{host}");
    }
    for host in ["localhost", "LOCALHOST:1", &format!("127.0.0.1:{port}"), "[::1]:7373"] {
        assert_eq!(gallery.request("GET", "/", &[("Host", host)], b"").status, 200, "{host}");
    }
    // The host in the URL counts as much as the header, and both must agree.
    assert_eq!(
        gallery
            .raw(
                format!("GET http://evil.example/ HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gallery.host)
                    .as_bytes()
            )
            .status,
        400
    );
    for request in [
        "GET / HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nHost: {0}\r\nHost: evil.example\r\nConnection: close\r\n\r\n", gallery.host),
        format!("GET / HTTP/1.1\r\nHost: evil@{}\r\nConnection: close\r\n\r\n", gallery.host),
    ] {
        assert_eq!(gallery.raw(request.as_bytes()).status, 400, "{request}");
    }
}

#[test]
fn a_foreign_page_can_do_and_read_nothing() {
    let gallery = Gallery::new();
    let body = br#"{"prompt":"planted"}"#;
    let post = |headers: &[(&str, &str)]| gallery.request("POST", "/api/record-iteration", headers, body).status;
    for origin in ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "file://", ""] {
        assert_eq!(post(&[JSON, ("Origin", origin)]), 403, "{origin}");
        assert_eq!(gallery.request("GET", "/api/list-sessions", &[("Origin", origin)], b"").status, 403, "{origin}");
    }
    // A browser that sends no Origin still sends `Sec-Fetch-Site`.
    for site in ["cross-site", "same-site"] {
        assert_eq!(post(&[JSON, ("Sec-Fetch-Site", site)]), 403);
        assert_eq!(post(&[JSON, ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate")]), 403);
        assert_eq!(gallery.request("GET", "/api/list-sessions", &[("Sec-Fetch-Site", site)], b"").status, 403);
    }
    // A browser that sends neither cannot send JSON without a preflight request, which is never granted.
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
    ] {
        assert_eq!(post(&[("Content-Type", kind)]), 415, "{kind}");
    }
    assert_eq!(post(&[]), 415);
    let asked = gallery.request(
        "OPTIONS",
        "/api/record-iteration",
        &[("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")],
        b"",
    );
    assert!(asked.status >= 400 && asked.header("access-control-allow-origin").is_none(), "{asked}");
    assert_eq!(gallery.sessions(), 0, "nothing was planted");

    // Our own page may, and so may a link from anywhere.
    let ours = format!("http://{}", gallery.host);
    assert_eq!(post(&[JSON, ("Origin", &ours), ("Sec-Fetch-Site", "same-origin")]), 200);
    let link = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")];
    assert_eq!(gallery.request("GET", "/", &link, b"").status, 200);
}

#[test]
fn every_response_has_security_headers() {
    let gallery = Gallery::new();
    gallery.record("a cat");
    for path in ["/", "/api/list-sessions", "/api/nothing", "/nothing", "/images/x", "/events?x=1"] {
        if path.starts_with("/events") {
            continue;
        }
        let answer = gallery.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(answer.header("cache-control").is_some());
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let page = gallery.get("/").text();
    assert!(!page.contains("style=") && !page.contains("onclick") && !page.contains("<script>"), "{page}");
}

#[test]
fn no_address_leads_to_the_disk() {
    let gallery = Gallery::new();
    gallery.record("a cat");
    let up = "../".repeat(12);
    for path in [
        format!("/images/{up}etc/passwd"),
        "/images/..%2f..%2f..%2fetc%2fpasswd".to_owned(),
        "/images/%2e%2e/%2e%2e/retake.toml".to_owned(),
        "/thumbs/../retake.toml".to_owned(),
        "/assets/../../../etc/passwd".to_owned(),
        "/assets/x/..%5c..%5cretake.toml".to_owned(),
        "/sessions/../../etc/passwd".to_owned(),
        "/sessions/%00".to_owned(),
        "/images/%00".to_owned(),
        format!("/images/{}", "a".repeat(64)),
        format!("/images/{}", "A".repeat(64)),
        "//etc/passwd".to_owned(),
        "/retake.toml".to_owned(),
        "/journal/00000001.log".to_owned(),
    ] {
        let answer = gallery.get(&path);
        assert!((400..500).contains(&answer.status), "{path}: {answer}");
        let text = answer.text();
        assert!(!text.contains("root:") && !text.contains("format ="), "{path}: {text}");
    }
    // An image by path would be a file on this machine, sent to any client.
    for images in [r#"["/etc/passwd"]"#, r#"[{"path":"/etc/passwd"}]"#] {
        let body = format!(r#"{{"prompt":"a cat","images":{images}}}"#);
        let answer = gallery.request("POST", "/api/record-iteration", &[JSON], body.as_bytes());
        assert_eq!(answer.status, 400, "{answer}");
        assert_eq!(answer.json()["error"]["kind"], "invalid");
    }
    assert_eq!(gallery.sessions(), 1);
}

#[test]
fn other_files_are_never_rendered_as_pages() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let gallery = Gallery::new();
    for planted in
        ["<html><script>alert(1)</script>", "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>"]
    {
        let data = STANDARD.encode(planted);
        let body = serde_json::json!({ "prompt": "a cat", "images": [{ "data": data, "mimeType": "text/html" }] });
        let recorded = gallery.post("/api/record-iteration", &body);
        if recorded.status == 400 {
            continue;
        }
        let reference = recorded.json()["reference"].as_str().unwrap().replace('#', "%23");
        let view = gallery.get(&format!("/api/get-iteration?reference={reference}")).json();
        let hash = view["images"][0]["hash"].as_str().unwrap().to_owned();
        let answer = gallery.get(&format!("/images/{hash}"));
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"), "{answer}");
        assert_eq!(answer.header("content-disposition"), Some("attachment"));
        assert!(answer.header("content-security-policy").unwrap().contains("sandbox"));
        assert!(gallery.get(&format!("/thumbs/{hash}")).header("content-type") != Some("text/html"));
    }
}

#[test]
fn oversized_and_malformed_requests_are_refused() {
    let gallery = Gallery::new();
    let huge = gallery.request("POST", "/api/record-iteration", &[JSON, ("Content-Length", "99999999999")], b"");
    assert_eq!(huge.status, 413, "{huge}");
    // A body of unannounced size is cut off at the limit.
    let mut chunked = format!(
        "POST /api/record-iteration HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        gallery.host
    )
    .into_bytes();
    for _ in 0..50 {
        chunked.extend_from_slice(b"100000\r\n");
        chunked.extend_from_slice(&vec![b' '; 1 << 20]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let mut stream = gallery.connect();
    let _ = stream.write_all(&chunked);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer));

    let long = format!("/?q={}", "x".repeat(70_000));
    assert!((400..500).contains(&gallery.get(&long).status));
    let wide = "y".repeat(70_000);
    // The server may close the connection before it has read all of it, and then nothing comes back.
    let status = gallery.request("GET", "/", &[("X-Wide", &wide)], b"").status;
    assert!(status == 0 || (400..500).contains(&status), "{status}");
    for request in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\0\0\0\0",
        b"",
    ] {
        let mut stream = gallery.connect();
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let first = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        assert!(first.is_empty() || first.starts_with("HTTP/1.1 4"), "{request:?}: {first}");
    }
    for body in [
        "",
        "null",
        "[]",
        "{",
        "\"x\"",
        "{\"prompt\": 7}",
        "{\"prompt\":\"a\",\"promt\":1}",
        "\u{0}",
        &"[".repeat(100_000),
    ] {
        let answer = gallery.request("POST", "/api/record-iteration", &[JSON], body.as_bytes());
        assert_eq!(answer.status, 400, "{body:.40}: {answer}");
        assert_eq!(answer.json()["error"]["kind"], "invalid");
    }
    assert_eq!(gallery.sessions(), 0);
}
