//! The page for people without the token. Styles and scripts need the token too, so it has its own style inline, which
//! the policy allows by its hash.

use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::reply;

const STYLE: &str = "\
:root { color-scheme: light dark; font: 400 16px/1.5 system-ui, sans-serif; background: light-dark(#f7f6f4, #141312); color: light-dark(#1d1b19, #edeae6); }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; }
main { width: min(440px, calc(100vw - 48px)); }
h1 { font-size: 24px; line-height: 1.3; margin: 0 0 12px; }
p { margin: 0 0 16px; overflow-wrap: anywhere; }
.wrong { color: light-dark(#a32a22, #f19a92); }
form { display: flex; gap: 8px; align-items: end; }
label { flex: 1; display: grid; gap: 4px; font-size: 14px; }
input, button { font: inherit; box-sizing: border-box; min-height: 40px; padding: 6px 12px; border-radius: 8px; border: 1px solid light-dark(#8f8a83, #7d766e); background: light-dark(#fff, #1d1b1a); color: inherit; min-width: 0; }
button { background: light-dark(#9a4a17, #f0a06a); border-color: transparent; color: light-dark(#fff, #21120a); cursor: pointer; }
:focus-visible { outline: 2px solid light-dark(#9a4a17, #f0a06a); outline-offset: 2px; }
";

/// Returns the page that asks for the token; `wrong` if one was presented.
pub(super) fn response(wrong: bool) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Token needed · Retake" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "This gallery asks for a token" }
                    p { "Open the address that " code { "retake serve" } " printed, or enter the token that was set with " code { "--token" } "." }
                    @if wrong { p.wrong #wrong role="alert" { "This is not the gallery's token." } }
                    form method="get" action="/" {
                        label { "Token" input type="password" name="token" autocomplete="current-password" required autofocus aria-describedby=[wrong.then_some("wrong")] aria-invalid=[wrong.then_some("true")]; }
                        button type="submit" { "Open" }
                    }
                }
            }
        }
    };
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    let mut response = (StatusCode::UNAUTHORIZED, reply::html(page)).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}
