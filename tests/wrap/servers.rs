//! Real third-party image servers, installed in fixed versions, against a stand-in for the services behind them.
//!
//! They are installed once, below the target directory. After that they only access loopback.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, Desk, mark};
use crate::http::Proxy;
use crate::upstream;

#[cfg(unix)]
pub(crate) const TESTS: &[Test] = &[
    ("minimax_mcp", minimax_mcp),
    ("minimax_mcp_in_the_stateless_era", minimax_mcp_in_the_stateless_era),
    ("image_generation_mcp", image_generation_mcp),
    ("image_generation_mcp_over_http", image_generation_mcp_over_http),
    ("nano_banana_mcp", nano_banana_mcp),
    ("nanobanana_mcp_server", nanobanana_mcp_server),
    ("imagegen_mcp", imagegen_mcp),
    ("minimax_mcp_js", minimax_mcp_js),
    ("minimax_mcp_js_with_addresses", minimax_mcp_js_with_addresses),
    ("comfy_mcp_server", comfy_mcp_server),
];
#[cfg(not(unix))]
pub(crate) const TESTS: &[Test] = &[];

/// Returns the directory in which servers are installed.
fn servers() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrap-servers");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Installs something once; an interrupted installation starts over.
fn once(name: &str, install: impl FnOnce(&Path)) -> PathBuf {
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = servers().join(name);
    if !dir.join("ready").exists() {
        std::fs::create_dir_all(&dir).unwrap();
        install(&dir);
        std::fs::write(dir.join("ready"), "").unwrap();
    }
    dir
}

fn must(command: &mut Command) {
    let output = command.output().unwrap();
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {printed}");
}

/// Returns a Python environment with these packages.
fn python(name: &str, packages: &[&str]) -> PathBuf {
    once(name, |dir| {
        must(Command::new("python3").args(["-m", "venv"]).arg(dir));
        must(Command::new(dir.join("bin/pip")).args(["install", "--quiet"]).args(packages));
    })
    .join("bin")
}

/// Returns a directory with this npm package.
fn npm(package: &str) -> PathBuf {
    let name = format!("npm-{}", package.split('@').next().unwrap());
    once(&name, |dir| {
        std::fs::write(dir.join("package.json"), "{\"private\": true}").unwrap();
        must(
            Command::new("npm")
                .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", package])
                .current_dir(dir),
        );
    })
    .join("node_modules")
}

/// Returns the port of the stand-in, which all tests share.
fn services() -> u16 {
    static PORT: OnceLock<u16> = OnceLock::new();
    *PORT.get_or_init(upstream::services)
}

fn base() -> String {
    format!("http://127.0.0.1:{}", services())
}

/// Starts a server behind `wrap`, with this environment.
fn wrapped(desk: &Desk, environment: &[(&str, String)], command: &[OsString]) -> Client {
    let mut wrap = desk.retake(&["wrap", "--announce-timeout", "600000", "--"]);
    wrap.args(command).env("NO_PROXY", "*").env("TMPDIR", desk.out());
    wrap.envs(environment.iter().map(|(name, value)| (name, value.as_str())));
    Client::start(wrap)
}

fn node(script: PathBuf) -> Vec<OsString> {
    vec!["node".into(), script.into()]
}

/// Returns the complete iteration that a response is marked with.
fn shown(desk: &Desk, response: &Value) -> Value {
    let reference = mark(response).unwrap_or_else(|| panic!("not marked: {response}"));
    desk.json(&["show", &reference])
}

/// Compares every given field; `null` means that it must be absent.
fn check(shown: &Value, expected: &Value) {
    for (path, expected) in expected.as_object().unwrap() {
        let found = shown.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null);
        assert_eq!(found, expected, "{path} of {shown}");
    }
}

fn image_count(shown: &Value) -> usize {
    shown["images"].as_array().unwrap().len()
}

fn minimax_environment(desk: &Desk) -> Vec<(&'static str, String)> {
    vec![
        ("MINIMAX_API_KEY", "fake".to_owned()),
        ("MINIMAX_API_HOST", base()),
        ("MINIMAX_MCP_BASE_PATH", desk.out().display().to_string()),
        ("MINIMAX_API_RESOURCE_MODE", "local".to_owned()),
    ]
}

/// Covers noise on stdout, a Python list of paths, a refusal and a failure without a flag.
fn minimax_mcp() {
    let command = [python("minimax-mcp", &["minimax-mcp==0.0.19"]).join("minimax-mcp").into_os_string()];
    let desk = Desk::new();
    let mut client = wrapped(&desk, &minimax_environment(&desk), &command);
    client.initialize();
    let made = client.call("text_to_image", json!({"prompt": "a paper crane", "aspect_ratio": "16:9", "n": 2}));
    let iteration = shown(&desk, &made);
    check(
        &iteration,
        &json!({
            "recipe.prompt": "a paper crane", "recipe.provider": "Minimax/text_to_image", "recipe.seed": null,
            "recipe.model": null, "recipe.parameters.aspect_ratio": "16:9", "recipe.parameters.mcp.count": 2,
            "recipe.parameters.mcp.tool": "text_to_image", "outcome.status": "succeeded", "outcome.message": null,
            "outcome.cost": null, "images.0.mimeType": "image/png", "images.0.width": 64, "images.1.width": 64,
        }),
    );
    assert_eq!(image_count(&iteration), 2);
    let refused = shown(&desk, &client.call("text_to_image", json!({"prompt": "REFUSE this"})));
    check(&refused, &json!({"outcome.status": "refused", "recipe.prompt": "REFUSE this"}));
    assert!(refused["outcome"]["message"].as_str().unwrap().contains("sensitive content"));
    let failed = shown(&desk, &client.call("text_to_image", json!({"prompt": "BOOM"})));
    check(&failed, &json!({"outcome.status": "failed"}));
    assert_eq!(mark(&client.call("list_voices", json!({}))), None);
    let (_, _, _) = client.wait();
    assert_eq!(desk.recorded().len(), 3);
}

fn minimax_mcp_in_the_stateless_era() {
    let command = [python("minimax-mcp", &["minimax-mcp==0.0.19"]).join("minimax-mcp").into_os_string()];
    let desk = Desk::new();
    let mut client = wrapped(&desk, &minimax_environment(&desk), &command);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "stateless", "version": "1"},
    });
    client.ask("server/discover", json!({"_meta": meta}));
    client.ask("tools/list", json!({"_meta": meta}));
    let made = client
        .ask("tools/call", json!({"name": "text_to_image", "arguments": {"prompt": "a paper crane"}, "_meta": meta}));
    // The server's own `_meta` is still there.
    assert_eq!(made["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "Minimax");
    let iteration = shown(&desk, &made);
    check(&iteration, &json!({"recipe.provider": "Minimax/text_to_image", "outcome.status": "succeeded"}));
    assert!(iteration["recordedBy"]["client"].as_str().unwrap().starts_with("stateless 1 via retake-wrap"));
    assert_eq!(image_count(&iteration), 1);
    client.wait();
}

fn image_generation_command() -> OsString {
    python("image-generation-mcp", &["image-generation-mcp[mcp]==1.12.1"]).join("image-generation-mcp").into_os_string()
}

fn image_generation_environment(desk: &Desk) -> Vec<(&'static str, String)> {
    vec![
        ("IMAGE_GENERATION_MCP_READ_ONLY", "false".to_owned()),
        ("IMAGE_GENERATION_MCP_SCRATCH_DIR", desk.out().join("scratch").display().to_string()),
    ]
}

/// Covers a job, a preview by one call, and the image itself as a resource.
fn image_generation_mcp() {
    let desk = Desk::new();
    let command = [image_generation_command(), "serve".into()];
    let mut client = wrapped(&desk, &image_generation_environment(&desk), &command);
    client.initialize();
    let arguments = json!({"prompt": "a blue vase", "provider": "placeholder", "aspect_ratio": "16:9"});
    let started = client.call("generate_image", arguments);
    assert_eq!(mark(&started), None, "{started}");
    let text: Value = serde_json::from_str(started["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    let id = text["image_id"].as_str().unwrap().to_owned();
    crate::client::eventually("the job is done", || {
        let status = client.call("check_generation_status", json!({"image_id": id}));
        status.to_string().contains("completed")
    });
    let preview = client.call("show_image", json!({"uri": format!("image://{id}/view")}));
    assert_eq!(mark(&preview), None, "a preview does not end the job: {preview}");
    let read = client.ask("resources/read", json!({"uri": format!("image://{id}/view")}));
    let iteration = shown(&desk, &read);
    check(
        &iteration,
        &json!({
            "recipe.prompt": "a blue vase", "recipe.provider": "image-generation-mcp/generate_image",
            "recipe.parameters.provider": "placeholder", "recipe.parameters.aspect_ratio": "16:9",
            "recipe.parameters.mcp.job": id, "recipe.parameters.mcp.profile": "image-generation-mcp",
            "outcome.status": "succeeded", "images.0.width": 640, "images.0.height": 360, "images.0.mimeType": "image/png",
        }),
    );
    let failed =
        client.call("generate_image", json!({"prompt": "x", "provider": "placeholder", "aspect_ratio": "7:3"}));
    check(&shown(&desk, &failed), &json!({"outcome.status": "failed"}));
    client.wait();
    assert_eq!(desk.recorded().len(), 2);
}

/// Covers Streamable HTTP: answers as events, with a session.
fn image_generation_mcp_over_http() {
    let desk = Desk::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new(image_generation_command());
    desk.settle(&mut server);
    server
        .args(["serve", "--transport", "http", "--port", &port.to_string()])
        .envs(image_generation_environment(&desk));
    let mut server = server.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    crate::client::eventually("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let proxy = Proxy::start(&desk, &format!("http://127.0.0.1:{port}/mcp"), &[]);
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "over-http", "version": "1"}}});
    let (head, body) = proxy.post(&hello);
    let body = String::from_utf8(body).unwrap();
    assert!(head.contains("200") && body.contains("\"serverInfo\""), "{head}{body}");
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).map(str::to_owned);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "generate_image",
        "arguments": {"prompt": "x", "provider": "placeholder", "aspect_ratio": "7:3"}}});
    let (_, body) = proxy.post_in(session.as_deref(), &call);
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("dev.retake/iteration"), "{body}");
    proxy.stop();
    server.kill().unwrap();
    server.wait().unwrap();
    let recorded = desk.recorded();
    check(&recorded[0], &json!({"outcome.status": "failed", "recipe.provider": "image-generation-mcp/generate_image"}));
    assert!(recorded[0]["recordedBy"]["client"].as_str().unwrap().starts_with("over-http 1"));
}

/// Covers the image inline and as a file, an edit of the last image, JSON-RPC errors, an implicit refusal, and a secret
/// among the arguments.
fn nano_banana_mcp() {
    let script = npm("nano-banana-mcp@1.0.3").join("nano-banana-mcp/dist/index.js");
    let desk = Desk::new();
    let environment = [("GEMINI_API_KEY", "fake-key-123456".to_owned()), ("GOOGLE_GEMINI_BASE_URL", base())];
    let mut client = wrapped(&desk, &environment, &node(script));
    client.initialize();
    let made = client.call("generate_image", json!({"prompt": "a lighthouse at dusk"}));
    let iteration = shown(&desk, &made);
    check(
        &iteration,
        &json!({
            "recipe.prompt": "a lighthouse at dusk", "recipe.provider": "nano-banana-mcp/generate_image",
            "recipe.parameters.mcp.server": "nano-banana-mcp", "recipe.parameters.mcp.serverVersion": "1.0.0",
            "outcome.status": "succeeded", "images.0.width": 64,
        }),
    );
    assert_eq!(image_count(&iteration), 1, "inline and file are one image");
    assert!(iteration["images"][0]["name"].as_str().unwrap().starts_with("generated-"), "the file is preferred");
    let edited = shown(&desk, &client.call("continue_editing", json!({"prompt": "add a boat"})));
    check(&edited, &json!({"recipe.prompt": "add a boat", "parent": mark(&made)}));
    let path = iteration["images"][0]["name"].as_str().unwrap();
    let path = walk(desk.root.path(), path);
    let edited = client.call("edit_image", json!({"imagePath": path, "prompt": "at night"}));
    check(
        &shown(&desk, &edited),
        &json!({"recipe.prompt": "at night", "parent": mark(&made), "recipe.parameters.imagePath": path}),
    );
    let refused = shown(&desk, &client.call("generate_image", json!({"prompt": "REFUSE something"})));
    check(&refused, &json!({"outcome.status": "failed"}));
    client.call("generate_image", json!({"prompt": "BOOM"}));
    client.call("configure_gemini_token", json!({"apiKey": "AIzaSyVerySecretIndeed0123456789abcdef"}));
    client.wait();
    let recorded = desk.recorded();
    assert_eq!(recorded.len(), 5);
    check(&recorded[4], &json!({"outcome.status": "failed", "outcome.message": "internal upstream explosion"}));
    assert!(!json!(recorded).to_string().contains("VerySecret"));
}

/// Finds the file with that name anywhere below the directory.
fn walk(dir: &Path, name: &str) -> String {
    let found =
        walkdir::WalkDir::new(dir).into_iter().flatten().find(|entry| entry.file_name().to_string_lossy() == name);
    found.unwrap().path().to_string_lossy().into_owned()
}

/// Covers a thumbnail inline, the image as a file, the prompt as sent, and a cause that only appears on stderr.
fn nanobanana_mcp_server() {
    let command = [python("nanobanana-mcp-server", &["nanobanana-mcp-server==0.4.6"])
        .join("nanobanana-mcp-server")
        .into_os_string()];
    let desk = Desk::new();
    let environment = [
        ("GEMINI_API_KEY", "fake-key-123456".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", base()),
        ("IMAGE_OUTPUT_DIR", desk.out().display().to_string()),
    ];
    let mut client = wrapped(&desk, &environment, &command);
    client.initialize();
    let arguments = json!({"prompt": "a tiny robot", "negative_prompt": "text", "aspect_ratio": "16:9", "model_tier": "nb2", "enable_grounding": false});
    let iteration = shown(&desk, &client.call("generate_image", arguments));
    check(
        &iteration,
        &json!({
            "recipe.prompt": "a tiny robot", "recipe.negativePrompt": "text", "recipe.model": "gemini-3.1-flash-image-preview",
            "recipe.parameters.mcp.requestedModel": "nb2", "recipe.parameters.enable_grounding": false,
            "outcome.status": "succeeded", "images.0.mimeType": "image/png",
        }),
    );
    assert!(iteration["recipe"]["promptSent"].as_str().unwrap().contains("Avoid: text"));
    assert_eq!(image_count(&iteration), 1, "the thumbnail is left out");
    let failed = shown(&desk, &client.call("generate_image", json!({"prompt": "BOOM", "model_tier": "flash"})));
    check(&failed, &json!({"outcome.status": "failed"}));
    let stderr = failed["recipe"]["parameters"]["mcp"]["stderr"].as_str().unwrap();
    assert!(stderr.contains("internal upstream explosion"), "{stderr}");
    client.wait();
}

/// Sends every request of a Node program to the stand-in, whatever its host.
const REDIRECT: &str = "\
const http = require('http'), https = require('https'), port = Number(process.env.STAND_IN_PORT), real = http.request;
function toLoopback(a, b, c) {
  const named = typeof a === 'string' || a instanceof URL;
  const options = named ? { ...(typeof b === 'object' ? b : {}), path: new URL(a).pathname + new URL(a).search } : { ...a };
  const done = named ? (typeof b === 'function' ? b : c) : b;
  for (const key of ['agent', 'protocol', 'socketPath', 'agents']) delete options[key];
  return real({ ...options, protocol: 'http:', host: '127.0.0.1', hostname: '127.0.0.1', port }, done);
}
https.request = toLoopback;
https.get = (...all) => { const request = toLoopback(...all); request.end(); return request; };
const fetched = globalThis.fetch;
globalThis.fetch = (input, init) => {
  const url = new URL(input.url || input);
  if (url.protocol !== 'https:') return fetched(input, init);
  const there = `http://127.0.0.1:${port}${url.pathname}${url.search}`;
  return fetched(input.url ? new Request(there, input) : there, init);
};
";

/// Covers noise on stdout, a prompt called `text`, a bare path, and a server that outlives its input.
fn imagegen_mcp() {
    let script = npm("imagegen-mcp@1.0.4").join("imagegen-mcp/bin/imagegen-mcp.js");
    let desk = Desk::new();
    let redirect = desk.root.path().join("redirect.cjs");
    std::fs::write(&redirect, REDIRECT).unwrap();
    let environment = [
        ("OPENAI_API_KEY", "sk-fake".to_owned()),
        ("NODE_OPTIONS", format!("--require {}", redirect.display())),
        ("STAND_IN_PORT", services().to_string()),
    ];
    let mut client = wrapped(&desk, &environment, &node(script));
    client.initialize();
    let first = desk.out().join("fox.png").display().to_string();
    let arguments =
        json!({"text": "a red fox in the snow", "outputPath": first, "model": "gpt-image-1", "size": "1024x1024"});
    let made = client.call("text-to-image", arguments);
    check(
        &shown(&desk, &made),
        &json!({
            "recipe.prompt": "a red fox in the snow", "recipe.model": "gpt-image-1", "recipe.width": 1024, "recipe.height": 1024,
            "recipe.parameters.size": "1024x1024", "recipe.parameters.outputPath": first,
            "recipe.provider": "Image Generation/text-to-image", "outcome.status": "succeeded", "images.0.name": "fox.png",
        }),
    );
    let second = desk.out().join("night.png").display().to_string();
    let edited = client.call(
        "image-to-image",
        json!({"prompt": "make it night", "images": [first], "outputPath": second, "model": "gpt-image-1"}),
    );
    let edited = shown(&desk, &edited);
    check(&edited, &json!({"recipe.prompt": "make it night", "parent": mark(&made), "images.0.name": "night.png"}));
    assert_eq!(image_count(&edited), 1);
    let refused =
        client.call("text-to-image", json!({"text": "REFUSE this", "outputPath": second, "model": "gpt-image-1"}));
    check(&shown(&desk, &refused), &json!({"outcome.status": "refused", "images": []}));
    client.wait();
}

/// Covers paths with spaces in a list with commas, and files with a wrong extension.
fn minimax_mcp_js() {
    let script = npm("minimax-mcp-js@0.0.18").join("minimax-mcp-js/build/index.js");
    let desk = Desk::new();
    let mut environment = minimax_environment(&desk);
    environment.push(("MINIMAX_RESOURCE_MODE", "local".to_owned()));
    let mut client = wrapped(&desk, &environment, &node(script));
    client.initialize();
    let made = client.call("text_to_image", json!({"prompt": "a paper crane", "aspectRatio": "16:9", "n": 2}));
    let iteration = shown(&desk, &made);
    check(
        &iteration,
        &json!({
            "recipe.prompt": "a paper crane", "recipe.provider": "minimax-mcp-js/text_to_image",
            "recipe.parameters.aspectRatio": "16:9", "recipe.parameters.mcp.count": 2,
            "outcome.status": "succeeded", "images.0.mimeType": "image/png",
        }),
    );
    assert_eq!(image_count(&iteration), 2);
    check(
        &shown(&desk, &client.call("text_to_image", json!({"prompt": "REFUSE"}))),
        &json!({"outcome.status": "refused"}),
    );
    check(
        &shown(&desk, &client.call("text_to_image", json!({"prompt": "BOOM"}))),
        &json!({"outcome.status": "failed"}),
    );
    client.wait();
}

fn minimax_mcp_js_with_addresses() {
    let script = npm("minimax-mcp-js@0.0.18").join("minimax-mcp-js/build/index.js");
    let desk = Desk::new();
    let mut environment = minimax_environment(&desk);
    environment.push(("MINIMAX_RESOURCE_MODE", "url".to_owned()));
    let mut client = wrapped(&desk, &environment, &node(script));
    client.initialize();
    let iteration = shown(&desk, &client.call("text_to_image", json!({"prompt": "a paper crane"})));
    check(&iteration, &json!({"outcome.status": "succeeded", "images": []}));
    let url = iteration["recipe"]["parameters"]["mcp"]["urls"][0].as_str().unwrap();
    assert!(url.starts_with(&base()) && url.contains("/files/"), "{url}");
    client.wait();
}

/// Covers a recipe in the image itself, and a result that is only a URL.
fn comfy_mcp_server() {
    let packages = ["comfy-mcp-server==0.1.11", "mcp[cli]==1.9.4", "pydantic==2.11.7"];
    let command = [python("comfy-mcp-server", &packages).join("comfy-mcp-server").into_os_string()];
    let graph = json!({
        "3": {"class_type": "KSampler", "inputs": {"seed": 42, "steps": 20, "cfg": 7, "sampler_name": "euler", "scheduler": "normal", "denoise": 1,
            "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}},
        "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sdxl.safetensors"}},
        "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 512, "height": 768, "batch_size": 1}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "x", "clip": ["4", 1]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["4", 1]}},
        "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
        "9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "ComfyUI", "images": ["8", 0]}},
    });
    for mode in ["file", "url"] {
        let desk = Desk::new();
        let workflow = desk.root.path().join("workflow.json");
        std::fs::write(&workflow, graph.to_string()).unwrap();
        let environment = [
            ("COMFY_URL", base()),
            ("COMFY_WORKFLOW_JSON_FILE", workflow.display().to_string()),
            ("PROMPT_NODE_ID", "6".to_owned()),
            ("OUTPUT_NODE_ID", "9".to_owned()),
            ("OUTPUT_MODE", mode.to_owned()),
        ];
        let mut client = wrapped(&desk, &environment, &command);
        client.initialize();
        let iteration = shown(&desk, &client.call("generate_image", json!({"prompt": "a glass teapot"})));
        check(&iteration, &json!({"recipe.prompt": "a glass teapot", "outcome.status": "succeeded"}));
        if mode == "file" {
            check(
                &iteration,
                &json!({
                    "recipe.seed": "42", "recipe.steps": 20, "recipe.guidanceScale": 7.0, "recipe.sampler": "euler",
                    "recipe.scheduler": "normal", "recipe.model": "sdxl", "recipe.negativePrompt": "blurry",
                    "recipe.width": 512, "recipe.height": 768, "images.0.width": 64,
                }),
            );
        } else {
            assert!(iteration["recipe"]["parameters"]["mcp"]["urls"][0].as_str().unwrap().contains("/view?filename="));
        }
        let failed = shown(&desk, &client.call("generate_image", json!({"prompt": "BOOM"})));
        check(&failed, &json!({"outcome.status": "failed"}));
        client.wait();
    }
}
