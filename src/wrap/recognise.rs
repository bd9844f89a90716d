//! Decides whether a call makes an image, from the name of the tool, its description and its arguments; in doubt, the
//! result decides.
//!
//! The `annotations` of tools are ignored: servers mark tools that generate, and even tools that delete, as read-only.

use super::arguments::CallArguments;
use super::keys::{is_input_key, is_model_key, is_prompt_key};
use super::observe::ListedTool;
use super::redact::normalized;

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It makes an image from a prompt.
    Generate,
    /// It makes an image from another one.
    Edit,
    /// It queries a job or fetches its output.
    Poll,
    /// It may make an image: a new image in the result decides.
    Unsure,
    /// It has nothing to do with making images.
    Ignore,
}

/// A decision and the rule that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recognised {
    /// The purpose of the call.
    pub(crate) kind: Kind,
    /// Whether a result without an image, an error or a job still counts as an iteration.
    pub(crate) strong: bool,
    /// The rule that applied.
    pub(crate) why: &'static str,
}

const IMAGE_WORDS: &[&str] = &[
    "image",
    "images",
    "img",
    "picture",
    "pictures",
    "photo",
    "photos",
    "icon",
    "icons",
    "art",
    "artwork",
    "logo",
    "illustration",
    "svg",
    "sprite",
    "wallpaper",
    "portrait",
    "thumbnail",
    "poster",
    "sticker",
    "txt2img",
    "img2img",
    "text2image",
    "image2image",
    "drawing",
    "painting",
    "banner",
    "headshot",
    "texture",
    "selfie",
    "graphic",
    "graphics",
    "visual",
    "visuals",
    "infographic",
    "mockup",
    "emoji",
    "meme",
    "comic",
    "cartoon",
    "collage",
    "imagery",
    "png",
    "jpeg",
    "jpg",
    "webp",
];
/// Families of image models after which many tools are named: `flux_schnell`, `dall-e-3`. Compared without the version
/// number.
const IMAGE_MODELS: &[&str] = &[
    "flux",
    "sdxl",
    "sd",
    "dalle",
    "dall",
    "imagen",
    "midjourney",
    "ideogram",
    "recraft",
    "seedream",
    "hidream",
    "kolors",
    "banana",
    "nanobanana",
    "diffusion",
    "photon",
    "firefly",
    "kandinsky",
    "pixart",
    "wanx",
    "cogview",
    "comfyui",
    "automatic",
    "fooocus",
    "invokeai",
];
const OTHER_MEDIA: &[&str] = &[
    "video",
    "videos",
    "audio",
    "music",
    "speech",
    "voice",
    "tts",
    "song",
    "lip",
    "lipsync",
    "3d",
    "chat",
    "sound",
    "movie",
    "animation",
    "transcript",
    "gif2video",
    "podcast",
];
const DENY: &[&str] = &[
    "list",
    "get",
    "search",
    "describe",
    "analyze",
    "analyse",
    "status",
    "history",
    "info",
    "price",
    "pricing",
    "schema",
    "upload",
    "delete",
    "clear",
    "configure",
    "set",
    "translate",
    "shorten",
    "validate",
    "cancel",
    "balance",
    "view",
    "show",
    "check",
    "query",
    "fetch",
    "poll",
    "read",
    "download",
    "browse",
    "help",
    "estimate",
    "login",
    "count",
    "ping",
    "health",
    "find",
    "compare",
    "caption",
    "interrogate",
    "classify",
    "detect",
    "ocr",
    "wait",
    "retrieve",
    "result",
    "explain",
    "test",
    "suggest",
    "recommend",
    "verify",
    "ingest",
    "register",
    "open",
    "inspect",
    "lookup",
    "load",
    "unload",
    "stop",
    "cleanup",
    "track",
    "monitor",
    "await",
    "export",
    "tag",
    "rename",
    "favorite",
    "setup",
    "authenticate",
    "logout",
    "refresh",
    "ask",
];
/// Final words of names that only provide information, unless the name contains a verb that makes something.
const INFORMATION: &[&str] = &[
    "models",
    "styles",
    "presets",
    "credits",
    "usage",
    "quota",
    "account",
    "settings",
    "options",
    "formats",
    "cost",
    "costs",
    "stats",
    "statistics",
    "queue",
    "logs",
    "help",
    "docs",
    "prompts",
    "tags",
    "templates",
    "loras",
    "samplers",
    "schedulers",
    "checkpoints",
    "progress",
    "result",
    "results",
];
const POLL: &[&str] = &[
    "get", "check", "query", "fetch", "show", "result", "status", "poll", "wait", "retrieve", "download", "read",
    "view", "task", "job", "load",
];
const EDIT: &[&str] = &[
    "edit",
    "transform",
    "img2img",
    "image2image",
    "inpaint",
    "inpainting",
    "outpaint",
    "outpainting",
    "upscale",
    "upscaler",
    "variation",
    "variations",
    "vary",
    "restore",
    "recolor",
    "recolour",
    "relight",
    "blend",
    "vectorize",
    "remove",
    "replace",
    "restyle",
    "continue",
    "reframe",
    "crop",
    "resize",
    "rotate",
    "blur",
    "fill",
    "overlay",
    "refine",
    "improve",
    "enhance",
    "erase",
    "expand",
    "modify",
    "swap",
    "faceswap",
    "customize",
    "retouch",
    "stylize",
    "colorize",
    "uncrop",
    "extend",
    "rmbg",
    "sketch",
    "control",
    "optimize",
    "compose",
    "merge",
    "combine",
    "rerender",
    "morph",
    "unblur",
    "sharpen",
    "denoise",
    "cutout",
    "matting",
    "segment",
];
const GENERATE: &[&str] = &[
    "generate",
    "create",
    "draw",
    "imagine",
    "render",
    "infer",
    "predict",
    "run",
    "txt2img",
    "text2image",
    "regenerate",
    "enqueue",
    "make",
    "paint",
    "produce",
    "synthesize",
    "design",
    "submit",
    "start",
    "invoke",
    "execute",
    "process",
    "build",
    "diffuse",
    "dream",
    "gen",
];
/// Verbs that imply an image by themselves.
const PLAIN: &[&str] = &[
    "imagine",
    "txt2img",
    "img2img",
    "text2image",
    "inpaint",
    "outpaint",
    "upscale",
    "draw",
    "faceswap",
    "rmbg",
    "paint",
    "image2image",
    "dream",
];

/// Decides the purpose of a call from everything but its result.
pub(crate) fn recognise(name: &str, tool: Option<&ListedTool>, asked: &CallArguments) -> Recognised {
    let words = unglued(words(name));
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let does = |list: &[&str]| words.iter().any(|word| is_form(word, list));
    let decided = |kind, strong, why| Recognised { kind, strong, why };

    if let Some(other) =
        words.iter().rev().find(|word| IMAGE_WORDS.contains(&word.as_str()) || OTHER_MEDIA.contains(&word.as_str()))
        && OTHER_MEDIA.contains(&other.as_str())
    {
        return decided(Kind::Ignore, false, "the name refers to another medium");
    }
    if words.last().is_some_and(|word| word == "text" || word == "prompt") && !has(IMAGE_WORDS) {
        return decided(Kind::Ignore, false, "the name refers to text");
    }
    let verb = words.iter().find(|word| is_verb(word));
    let denied = verb.is_some_and(|verb| DENY.contains(&verb.as_str())) && !does_more(&words);
    if denied {
        return if has(POLL) {
            decided(Kind::Poll, false, "the name refers to something that exists")
        } else {
            decided(Kind::Ignore, false, "the name does not refer to making anything")
        };
    }
    if words
        .last()
        .is_some_and(|last| matches!(last.as_str(), "status" | "history" | "info" | "list" | "prompt" | "schema"))
    {
        return decided(Kind::Poll, false, "the name refers to something that exists");
    }
    let makes = does(GENERATE) || does(EDIT);
    if !makes && words.last().is_some_and(|last| INFORMATION.contains(&last.as_str())) {
        return decided(Kind::Poll, false, "the name refers to something that exists");
    }

    let argument = |test: fn(&str) -> bool| tool.is_some_and(|tool| tool.properties.keys().any(|key| test(key)));
    let has_prompt = !asked.prompts.is_empty() || argument(is_prompt_key);
    let has_input = !asked.inputs.is_empty() || argument(is_input_key);
    let image_name = has(IMAGE_WORDS) || does(PLAIN) || words.iter().any(|word| is_image_model(word));
    let description = tool.map(|tool| self::words(&tool.description)).unwrap_or_default();
    let described = description.iter().any(|word| IMAGE_WORDS.contains(&word.as_str()) || is_image_model(word));
    if !image_name && asks_for_other_medium(asked) {
        return decided(Kind::Ignore, false, "the arguments ask for another medium");
    }
    let other_described = !described && description.iter().any(|word| OTHER_MEDIA.contains(&word.as_str()));
    if asked.has_graph {
        return decided(Kind::Generate, true, "an argument is a ComfyUI graph");
    }
    if does(EDIT) && (has_input || has_prompt) {
        return decided(Kind::Edit, image_name || described, "the tool's name indicates image editing");
    }
    if has_prompt && image_name && !asked.inputs.is_empty() {
        return decided(Kind::Edit, true, "the name refers to images, and one is given");
    }
    if does(GENERATE) && has_prompt && image_name {
        return decided(Kind::Generate, true, "the tool's name indicates image generation");
    }
    let has_model = asked.recipe.model.is_some() || argument(is_model_key);
    if does(GENERATE) && has_prompt && (described || has_model) && !other_described {
        return decided(Kind::Generate, false, "it makes something from a prompt and mentions images or models");
    }
    if has_prompt && image_name {
        return decided(Kind::Generate, true, "the name refers to images, and it takes a prompt");
    }
    if does(GENERATE) && image_name {
        return decided(
            Kind::Generate,
            false,
            "the tool's name indicates image generation, and the result must show it",
        );
    }
    if has_prompt || has_input || does(GENERATE) || words.iter().any(|word| word == "save") {
        return decided(Kind::Unsure, false, "it may make an image: the result decides");
    }
    decided(Kind::Ignore, false, "neither its name nor its arguments refer to making an image")
}

/// Splits a name or a text into lower-case words, including at changes of case.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = None::<char>;
    let mut fresh = true;
    for c in text.chars() {
        let boundary = before.is_some_and(|before| before.is_lowercase() && c.is_uppercase());
        if !c.is_alphanumeric() {
            fresh = true;
        } else {
            if fresh || boundary {
                words.push(String::new());
                fresh = false;
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        before = Some(c);
    }
    words
}

fn is_verb(word: &str) -> bool {
    DENY.contains(&word) || is_form(word, EDIT) || is_form(word, GENERATE)
}

/// Returns whether a word is one of these verbs or an inflection: `editing`, `generated`, `generation`, `upscaler`.
fn is_form(word: &str, verbs: &[&str]) -> bool {
    verbs.iter().any(|verb| {
        let Some(ending) = word.strip_prefix(verb.strip_suffix('e').unwrap_or(verb)) else { return false };
        match verb.ends_with('e') {
            true => matches!(ending, "e" | "es" | "ed" | "er" | "or" | "ing" | "ion" | "ions"),
            false => matches!(ending, "" | "s" | "ed" | "er" | "or" | "ing" | "ion" | "ions"),
        }
    })
}

fn is_image_model(word: &str) -> bool {
    IMAGE_MODELS.contains(&word.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// Splits compound words: `generateimage`, `imagegen`, `texttoimage`.
fn unglued(words: Vec<String>) -> Vec<String> {
    let parts = |word: &String| {
        let known = |part: &str| IMAGE_WORDS.contains(&part) || is_verb(part) || OTHER_MEDIA.contains(&part);
        if known(word) {
            return None;
        }
        let word = word.replace("textto", "text").replace("imageto", "image");
        let cuts = word.char_indices().map(|(at, _)| at).filter(|at| *at >= 3);
        let mut pairs = cuts.filter_map(|at| word.split_at_checked(at));
        let (left, right) = pairs.find(|(left, right)| {
            let is_medium = |part: &str| IMAGE_WORDS.contains(&part) || OTHER_MEDIA.contains(&part);
            (is_verb(left) || *left == "text" || is_medium(left)) && is_medium(right)
                || is_medium(left) && is_verb(right)
        })?;
        Some(vec![left.to_owned(), right.to_owned()])
    };
    words.into_iter().flat_map(|word| parts(&word).unwrap_or_else(|| vec![word])).collect()
}

/// Returns whether the model, or an argument that selects what to make, names another medium: `task: "text-to-video"`.
fn asks_for_other_medium(asked: &CallArguments) -> bool {
    const CHOICES: &[&str] =
        &["type", "task", "tasktype", "mediatype", "mode", "modality", "outputtype", "kind", "media"];
    let chosen = asked.recipe.parameters.iter().filter(|(name, _)| CHOICES.contains(&normalized(name).as_str()));
    let texts = chosen.filter_map(|(_, value)| value.as_str()).chain(asked.recipe.model.as_deref());
    texts.into_iter().any(|text| {
        let media = words(text);
        let mut media = media.iter().rev().map(String::as_str);
        let last = media.find(|word| IMAGE_WORDS.contains(word) || OTHER_MEDIA.contains(word));
        last.is_some_and(|word| OTHER_MEDIA.contains(&word))
    })
}

/// Returns whether a name continues after "and" with a verb that makes something: `search-and-replace`.
fn does_more(words: &[String]) -> bool {
    let after = words.iter().skip_while(|word| *word != "and").skip(1);
    after.into_iter().any(|word| is_form(word, EDIT) || is_form(word, GENERATE))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kind(name: &str, description: &str, arguments: Value) -> Kind {
        let asked = CallArguments::read(&arguments, None, None);
        let tool = ListedTool { name: name.to_owned(), description: description.to_owned(), ..ListedTool::default() };
        recognise(name, Some(&tool), &asked).kind
    }

    #[test]
    fn names_are_split_at_case_and_separators() {
        assert_eq!(words("generateImageUrl"), ["generate", "image", "url"]);
        assert_eq!(words("stability-ai-search_and_replace"), ["stability", "ai", "search", "and", "replace"]);
        assert_eq!(words("FLUX_1-schnell-infer"), ["flux", "1", "schnell", "infer"]);
    }

    #[test]
    fn tools_are_classified_by_name_and_description() {
        let prompt = || json!({"prompt": "a fox"});
        for name in [
            "generate_image",
            "create-image",
            "text_to_image",
            "midjourney_imagine",
            "nano_banana_image",
            "openai_generate_image",
            "image_generation",
            "generateimage",
            "imagegen",
            "flux_schnell",
            "dall-e-3",
        ] {
            assert_eq!(kind(name, "", prompt()), Kind::Generate, "{name}");
        }
        for name in [
            "edit_image",
            "continue_editing",
            "transform_image",
            "stability-ai-search-and-replace",
            "analyze_and_improve_image",
        ] {
            assert_eq!(kind(name, "", json!({"prompt": "a", "image": "x.png"})), Kind::Edit, "{name}");
        }
        for name in [
            "image_to_video",
            "text_to_audio",
            "generate_text",
            "list_models",
            "upload_image",
            "set_model",
            "describe_image",
            "generatevideo",
        ] {
            assert_eq!(kind(name, "", prompt()), Kind::Ignore, "{name}");
        }
        for name in ["check_generation_status", "get_prediction", "show_image", "query_task", "get_job_result"] {
            assert_eq!(kind(name, "", json!({"id": "x"})), Kind::Poll, "{name}");
        }
        assert_eq!(kind("create_asset", "Creates an image with Gemini", prompt()), Kind::Generate);
        assert_eq!(kind("remove_background", "", json!({"imageURI": "a.png"})), Kind::Edit);
        assert_eq!(kind("run", "", json!({"workflow": {"3": {"class_type": "KSampler"}}})), Kind::Generate);
        assert_eq!(kind("browser_take_screenshot", "", json!({})), Kind::Ignore);
        assert_eq!(kind("dynamic_space", "", prompt()), Kind::Unsure);
        assert_eq!(kind("image_styles", "", json!({})), Kind::Poll);
        assert_eq!(kind("image_editing", "", json!({"prompt": "a", "image": "x.png"})), Kind::Edit);
        assert_eq!(kind("run", "", json!({"prompt": "a", "model": "kling-video/v2"})), Kind::Ignore);
        assert_eq!(kind("create", "Makes a song", json!({"prompt": "a", "model": "m"})), Kind::Unsure);
    }
}
