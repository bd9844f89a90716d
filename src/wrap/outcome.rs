//! Determines the outcome of a call: success, failure or refusal, and the cost. Uses flags and the text, since four in
//! ten servers report a failure as an ordinary result.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::model::Cost;

use super::answer::ToolAnswer;
use super::redact;

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallOutcome {
    /// It returned what was requested, or nothing indicates otherwise.
    Succeeded,
    /// It failed, with this message.
    Failed(String),
    /// The provider refused it, with this message.
    Refused(String),
    /// It continues as a job with this id.
    Pending(String),
}

/// An outcome and the rule that led to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutcomeReading {
    /// The outcome of the call.
    pub(crate) ending: CallOutcome,
    /// The rule that applied.
    pub(crate) why: &'static str,
}

/// The maximum size of a message.
const MAX_MESSAGE_BYTES: usize = 4096;
/// The keys of a job id, most specific first.
const JOB_KEYS: &[&str] = &[
    "jobid",
    "taskid",
    "predictionid",
    "requestid",
    "promptid",
    "generationid",
    "imageid",
    "runid",
    "operationid",
    "sdgenerationjob",
    "id",
];
const PENDING_STATES: &[&str] = &[
    "pending",
    "queued",
    "running",
    "processing",
    "generating",
    "starting",
    "started",
    "submitted",
    "enqueued",
    "inprogress",
    "waiting",
    "created",
    "inqueue",
    "working",
    "accepted",
    "scheduled",
    "executing",
];
const FAILED_STATES: &[&str] = &[
    "failed",
    "error",
    "canceled",
    "cancelled",
    "failure",
    "aborted",
    "rejected",
    "expired",
    "timeout",
    "timedout",
    "blocked",
    "refused",
    "invalid",
    "notfound",
    "unauthorized",
    "requestmoderated",
    "contentmoderated",
    "nsfw",
    "tasknotfound",
];

/// Determines the outcome of a call. `has_image` states whether an image was found.
pub(crate) fn read(answer: &ToolAnswer, has_image: bool) -> OutcomeReading {
    let read = |ending, why| OutcomeReading { ending, why };
    let failed = |why| {
        let message = message(answer);
        let refused = REFUSAL.is_match(&message) || REFUSAL.is_match(&answer.text_joined());
        OutcomeReading {
            ending: if refused { CallOutcome::Refused(message) } else { CallOutcome::Failed(message) },
            why,
        }
    };
    if answer.is_error {
        return failed("the result is flagged as an error");
    }
    let state = state(answer);
    let says_no = answer.find(&["success", "ok", "succeeded"]).is_some_and(is_false);
    if says_no && !has_image {
        return failed("the result says `success: false`");
    }
    if state.as_deref().is_some_and(|state| FAILED_STATES.contains(&state)) && !has_image {
        return failed("the status in the result is a failure");
    }
    let code = answer.find(&["statuscode", "httpstatus", "code", "status"]).and_then(Value::as_u64);
    if code.is_some_and(|code| (400..600).contains(&code)) && !has_image {
        return failed("the status in the result is a failure");
    }
    let error = answer.find(&["error", "errors", "errormessage"]).is_some_and(is_something);
    if error && !has_image {
        return failed("the result has an error in it");
    }
    let text = answer.text_joined();
    // The output location may contain a file from an earlier call, but an image in the result itself belongs to this
    // one.
    if FAILS_AT_ONCE.is_match(&text) && answer.inline.is_empty() {
        return failed("the text begins with an error");
    }
    if has_image {
        return read(CallOutcome::Succeeded, "there is an image");
    }
    let addresses: Vec<&String> = answer.urls.iter().filter(|url| !is_page(url)).collect();
    if addresses.is_empty() && BEGINS_WITH_FAILURE.is_match(&text) {
        return failed("the text begins with an error");
    }
    if let Some(task) = &answer.task {
        return read(CallOutcome::Pending(task.clone()), "the call became a task");
    }
    let job = job(answer);
    match (state.as_deref(), job) {
        (Some(state), Some(job)) if PENDING_STATES.contains(&state) => {
            return read(CallOutcome::Pending(job), "the status in the result is not final");
        }
        (None, Some(job)) if addresses.is_empty() && answer.paths.is_empty() => {
            return read(CallOutcome::Pending(job), "there is a job id and nothing else");
        }
        _ => (),
    }
    // Prose may mention errors next to the URL of an image.
    if addresses.is_empty() && FAILURE.is_match(&text) {
        return failed("the text says that it failed");
    }
    read(CallOutcome::Succeeded, "nothing says that it failed")
}

/// Returns whether a result without anything that could be an image still claims success. Otherwise it is a failure of
/// unknown cause.
pub(crate) fn claims_success(answer: &ToolAnswer) -> bool {
    let flag = answer.find(&["success", "ok", "succeeded"]) == Some(&Value::Bool(true));
    let is_good = |state: String| !FAILED_STATES.contains(&state.as_str()) && !PENDING_STATES.contains(&state.as_str());
    flag || state(answer).is_some_and(is_good) || SUCCESS.is_match(&answer.text_joined())
}

/// Returns the outcome of a call that should have made an image, has none, and does not claim success.
pub(crate) fn no_image(answer: &ToolAnswer) -> OutcomeReading {
    let message = message(answer);
    let refused = REFUSAL.is_match(&message);
    let ending = if refused { CallOutcome::Refused(message) } else { CallOutcome::Failed(message) };
    OutcomeReading { ending, why: "no image was found, and the result does not report one" }
}

/// Returns whether a result contains a URL that may be that of an image.
pub(crate) fn has_address(answer: &ToolAnswer) -> bool {
    let is_other = |url: &str| {
        let path = url.split(['?', '#']).next().unwrap_or_default().to_lowercase();
        OTHER_FILES.iter().any(|extension| path.ends_with(extension))
    };
    answer.urls.iter().any(|url| !is_page(url) && !is_other(url))
}

/// The file extensions of other media.
const OTHER_FILES: &[&str] = &[
    ".mp4", ".webm", ".mov", ".mp3", ".wav", ".ogg", ".m4a", ".flac", ".glb", ".gltf", ".obj", ".pdf", ".html", ".txt",
];

/// Returns whether a URL is a page for people, as failures often include: where to get a key, or a policy.
fn is_page(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest).to_lowercase();
    let host = rest.split('/').next().unwrap_or_default();
    let hosts = ["docs.", "platform.", "console.", "help.", "support.", "status.", "developer.", "developers."];
    let parts = [
        "/docs",
        "/account",
        "/billing",
        "/api-keys",
        "/apikeys",
        "/keys",
        "/settings",
        "/pricing",
        "/dashboard",
        "/login",
        "/signup",
        "/policies",
        "/usage-policies",
        "/terms",
        "/errors",
        "/error-codes",
        "/help",
        "/guide",
    ];
    hosts.iter().any(|start| host.starts_with(start)) || parts.iter().any(|part| rest.contains(part))
}

fn is_false(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::String(text) => matches!(text.trim().to_lowercase().as_str(), "false" | "no" | "0"),
        _ => false,
    }
}

/// Returns whether the status of a job is final and successful.
pub(crate) fn is_done(answer: &ToolAnswer) -> bool {
    state(answer).is_none_or(|state| !PENDING_STATES.contains(&state.as_str()))
}

/// Returns the ids in a result, by which a later call may refer to it.
pub(crate) fn ids(answer: &ToolAnswer) -> Vec<String> {
    let mut keys: Vec<&str> = JOB_KEYS.to_vec();
    keys.extend(["assetid", "fileid", "historyid"]);
    keys.iter().filter_map(|key| answer.find(&[key]).and_then(id_text)).collect()
}

/// Returns the cost of the call, if the result contains it.
pub(crate) fn cost(answer: &ToolAnswer) -> Option<Cost> {
    let mut found = None;
    for value in &answer.values {
        numbers(value, &mut |key, number, siblings| {
            let key = redact::normalized(key);
            let is_cost = key.contains("cost") || key.contains("price");
            if found.is_none() && is_cost && !key.contains("time") && number > 0.0 {
                let named = siblings.iter().find(|(name, _)| redact::normalized(name) == "currency");
                let currency = match named.and_then(|(_, value)| value.as_str()) {
                    Some(currency) if !currency.trim().is_empty() => currency.trim().to_uppercase(),
                    _ if key.contains("credit") => "credits".to_owned(),
                    _ if key.contains("usd") || key.contains("dollar") => "USD".to_owned(),
                    _ if key.contains("eur") => "EUR".to_owned(),
                    // The number was reported without a unit, and guessing one would be inventing a price.
                    _ => "unspecified".to_owned(),
                };
                found = Some(Cost { amount: number, currency });
            }
        });
    }
    found.or_else(|| {
        let text = answer.text_joined();
        if let Some(found) = COST.captures(&text) {
            let amount = found.get(1)?.as_str().parse().ok()?;
            return Some(Cost { amount, currency: "USD".to_owned() });
        }
        let found = COST_WITH_UNIT.captures(&text)?;
        let amount: f64 = found.get(1).or(found.get(4))?.as_str().parse().ok()?;
        let unit = found.get(2).or(found.get(3))?.as_str();
        let currency =
            if unit.to_lowercase().starts_with("credit") { "credits".to_owned() } else { unit.to_uppercase() };
        (amount > 0.0).then_some(Cost { amount, currency })
    })
}

/// Returns the seed reported in the text of the result.
pub(crate) fn seed_in_text(answer: &ToolAnswer) -> Option<u64> {
    answer.texts.iter().find_map(|text| SEED.captures(text)?.get(1)?.as_str().parse().ok())
}

fn state(answer: &ToolAnswer) -> Option<String> {
    answer
        .find(&["status", "state", "taskstatus", "jobstatus"])
        .and_then(Value::as_str)
        .map(redact::normalized)
        .or_else(|| {
            let text = answer.text_joined();
            STATUS.captures(&text).and_then(|found| found.get(1)).map(|state| redact::normalized(state.as_str()))
        })
}

fn job(answer: &ToolAnswer) -> Option<String> {
    JOB_KEYS.iter().find_map(|key| answer.find(&[key]).and_then(id_text)).or_else(|| {
        let text = answer.text_joined();
        JOB.captures(&text).and_then(|found| found.get(1)).map(|job| job.as_str().to_owned())
    })
}

fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(id) if !id.trim().is_empty() => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Returns the message of a failure: from the error in the JSON, or else the text.
fn message(answer: &ToolAnswer) -> String {
    let deep = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(object) => {
            let keys = ["upstreamMessage", "message", "detail", "details", "reason", "msg", "error"];
            keys.iter().find_map(|key| object.get(*key).and_then(Value::as_str)).map(str::to_owned)
        }
        _ => None,
    };
    let upstream = answer.find(&["upstreammessage"]).and_then(Value::as_str).map(str::to_owned);
    let found = upstream.or_else(|| answer.find(&["error", "errormessage", "errors"]).and_then(deep));
    let found = found
        .filter(|text| !text.trim().is_empty())
        .or_else(|| answer.find(&["message", "failmsg", "reason"]).and_then(deep));
    let mut text = found.unwrap_or_else(|| answer.text_joined());
    if text.trim().is_empty() {
        text = "the server gave no reason".to_owned();
    }
    let text = redact::text(text.trim());
    clip(&text, MAX_MESSAGE_BYTES).to_owned()
}

/// Truncates a text to at most this many bytes, at a character boundary.
pub(crate) fn clip(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or(text)
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.trim().is_empty(),
        Value::Object(object) => !object.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(error) => *error,
        _ => false,
    }
}

/// A callback that receives a number, its key, and the object that contains both.
type NumberVisitor<'a> = &'a mut dyn FnMut(&str, f64, &Map<String, Value>);

fn numbers(value: &Value, found: NumberVisitor<'_>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| numbers(item, found)),
        Value::Object(object) => {
            for (key, value) in object {
                let number = match value {
                    Value::Number(number) => number.as_f64(),
                    Value::String(text) => text.trim().trim_start_matches('$').parse().ok(),
                    _ => None,
                };
                match number {
                    Some(number) if f64::is_finite(number) => found(key, number, object),
                    _ => numbers(value, found),
                }
            }
        }
        _ => (),
    }
}

#[expect(clippy::expect_used, reason = "the patterns are constants that the tests compile")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

static REFUSAL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)safety|moderation|moderated|content[ _-]?polic|usage polic|prohibited|block(?:ed|reason)|sensitive|nsfw|banned prompt|rejected by|filtered|inappropriate|violat(?:es|ed|ion)|flagged|disallowed|not allowed by|guidelines|terms of service|censor|explicit content|违规|违反|敏感|审核|不合规|不适当",
    )
});
static FAILS_AT_ONCE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^[^\w{\[]*(?:error|failed|failure|unable to|cannot|can't|could not|exception|traceback)\b|^\s*❌")
});
static BEGINS_WITH_FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^[^\w{\[]*(?:err|invalid|missing|unauthori[sz]ed|forbidden|(?:access|permission) denied|insufficient|unsupported|unknown|unexpected|not found|no such|rate limit|too many requests|quota|sorry|i'm sorry|couldn't|bad request|timeout|timed out|request failed|erreur|fehler|エラー|오류)\b|^\s*(?:⚠️?|🚫|⛔|✗|✖)",
    )
});
static SUCCESS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:success\w*|succeed\w*|generated|created|saved|written|stored|complet\w+|finished|done|ready|edited|upscaled|rendered|produced|removed|here (?:is|are|'s))\b|[✅✓✔🎨🖼]|成功|完成|已生成|已保存|生成しました|완료",
    )
});
static COST_WITH_UNIT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:cost|price|charged|used)\b[^\n\d]{0,16}([0-9]+(?:\.[0-9]+)?)\s*(credits?|usd|eur|gbp)\b|(?i)\b(credits)\s+(?:used|charged|spent)\b[\s:*`]*([0-9]+(?:\.[0-9]+)?)",
    )
});
static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)❌|\berror (?:generating|editing|creating|calling|executing|processing|during|while|in)\b|\bfail(?:ed|ure) to\b|\b(?:generation|request|edit(?:ing)?|call|task|job) (?:has )?(?:failed|timed out)\b|\bno images? (?:was|were|could be|found|generated|returned|data|urls?)\b|\bdid not (?:return|generate|produce) (?:an?y? )?images?\b|\btimed? ?out\b|\bapi error\b|\bvalidation errors?\b|错误|失败|\bunsuccessful|\bwent wrong\b|\b(?:could|can|was|were|is|are) ?not (?:be )?(?:generated|created|available|supported|configured|found|set|allowed|edited)\b|\bis required\b|\bmust be\b|\b(?:quota|limit) (?:was |has been )?exceeded\b|\bexceed(?:ed|s)\b|\binsufficient\b|\brate.?limit|\binvalid (?:api|request|arg|param|key|input|value|prompt|image|size|model)|\bno (?:output|result)s?\b|\bunauthori[sz]ed\b|\bdenied\b|\b(?:http|status(?: code)?)[ :]*[45]\d\d\b|エラー|失敗|오류|실패|\berreur\b|\bfehler\b",
    )
});
static COST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)\b(?:cost|price)s?\b[^$\n\d]{0,24}\$\s?([0-9]+(?:\.[0-9]+)?)"));
static SEED: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\bseed\b[\s*`]*[:=][\s*`]*([0-9]{1,20})\b"));
static STATUS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\b(?:status|state)\b[\s*`]*[:=][\s*`]*([A-Za-z_-]+)"));
static JOB: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:job|task|prediction|request|generation|prompt)[ _-]?(?:id)?\b[\s*`]*[:=]?[\s*`#]*([A-Za-z0-9][A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]{3,})",
    )
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ending(result: Value) -> CallOutcome {
        read(&ToolAnswer::read(&Ok(result)), false).ending
    }

    fn text(text: &str) -> Value {
        json!({"content": [{"type": "text", "text": text}]})
    }

    #[test]
    fn failures_are_seen_without_a_flag() {
        for described in [
            "Error generating image: quota",
            "❌ No images were generated. Please check the logs",
            "Failed to generate images: Request failed: 500 for url: http://127.0.0.1/v1",
            "Note: No image was generated.",
            r#"{"success": false, "error": "quota"}"#,
            r#"{"error": {"message": "quota"}}"#,
            r#"{"status": "failed", "id": "x"}"#,
            "生成失败",
            "API error (429): quota exceeded",
            "Invalid API key. Get one at https://platform.example/api-keys",
            "Unknown model flux-9; see https://docs.example/models",
            "The service answered with status 503",
            r#"{"success": "false", "message": "quota"}"#,
            r#"{"statusCode": 429, "message": "slow down"}"#,
        ] {
            assert!(
                matches!(ending(text(described)), CallOutcome::Failed(_)),
                "{described}: {:?}",
                ending(text(described))
            );
        }
        let in_block = json!({"content": [{"type": "text", "text": "quota", "isError": true}]});
        assert_eq!(ending(in_block), CallOutcome::Failed("quota".to_owned()));
    }

    #[test]
    fn only_explicit_refusals_are_refusals() {
        for described in [
            "Error: Your request was rejected by the safety system.",
            "Failed to generate images: API Error: 1026-prompt involves sensitive content",
            r#"{"success": false, "error": "Content policy violation"}"#,
        ] {
            assert!(matches!(ending(text(described)), CallOutcome::Refused(_)), "{described}");
        }
        assert!(matches!(ending(text("❌ No images were generated.")), CallOutcome::Failed(_)));
    }

    #[test]
    fn jobs_are_pending() {
        let pending = |described: &str| match ending(text(described)) {
            CallOutcome::Pending(job) => job,
            other => panic!("{described}: {other:?}"),
        };
        assert_eq!(pending(r#"{"status": "generating", "image_id": "165b9c"}"#), "165b9c");
        assert_eq!(pending(r#"{"success": true, "response": {"data": {"taskId": "t1"}}}"#), "t1");
        assert_eq!(pending("Created prediction abc123def"), "abc123def");
        assert_eq!(ending(text("https://x/a.png\nTask ID: abc-123456")), CallOutcome::Succeeded);
        assert_eq!(ending(text("Done.")), CallOutcome::Succeeded);
    }

    #[test]
    fn costs_are_never_invented() {
        let cost = |described: &str| cost(&ToolAnswer::read(&Ok(text(described))));
        assert_eq!(cost("💰 Total cost: $0.042").unwrap().amount, 0.042);
        assert_eq!(cost(r#"{"cost_estimate": {"amount_cost": 0.02, "currency": "eur"}}"#).unwrap().currency, "EUR");
        assert_eq!(cost(r#"{"cost_time": 8}"#), None);
        assert_eq!(cost("It may incur costs."), None);
    }
}
