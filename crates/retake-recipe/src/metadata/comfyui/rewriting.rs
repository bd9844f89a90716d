//! Language models between a text and its encoder. Their results are not in the file: the prompt is what a person gave
//! them, without the instructions, and a question about an image is not a prompt.

use serde_json::Value;

use super::graph::{Input, Node};
use super::texts::{Search, is_text_input};
use super::values::STEPS;

/// Parts of class names of nodes whose text is generated when they run, so that it is not in the file.
const RUNTIME: [&str; 26] = [
    "generate",
    "llm",
    "gpt",
    "ollama",
    "gemini",
    "gemma",
    "enhanceprompt",
    "qwen",
    "florence",
    "caption",
    "interrog",
    "tagger",
    "vlm",
    "chat",
    "claude",
    "openai",
    "groq",
    "llama",
    "joycaption",
    "moondream",
    "deepseek",
    "loadtext",
    "tipo",
    "promptgenerator",
    "promptembellish",
    "zhipu",
];

/// Returns whether a node generates its text when it runs, so that it is not in the file.
pub(super) fn is_generated(node: &Node) -> bool {
    let class = node.class.to_ascii_lowercase();
    let is = |parts: &[&str]| parts.iter().any(|part| class.contains(part));
    is_language_model(node) || is(&RUNTIME) && !is(&["template", "builder", "encode"])
}

/// Returns whether a node has the settings of a language model, or calls one, whatever its name. A model that makes images
/// may have them, too, but then it has steps.
pub(super) fn is_language_model(node: &Node) -> bool {
    if STEPS.iter().any(|name| node.has(name)) {
        return false;
    }
    let calls = |value: &Value| value.as_str().is_some_and(|text| text.ends_with("/chat/completions"));
    node.inputs.values().any(calls)
        || ["max_tokens", "max_new_tokens"].iter().any(|name| node.has(name))
        || (node.has("user_input") && node.has("keep_model_loaded"))
        || (node.has("temperature") && (node.has("top_p") || node.has("top_k")))
}

impl<'a> Search<'a> {
    /// Returns the text given to a language model. If it looks at an image, this was a question about it, unless the
    /// model rewrites prompts for that image.
    pub(super) fn rewritten(&mut self, node: &'a Node) -> Option<String> {
        const GIVEN: [&str; 14] = [
            "prompt",
            "user_prompt",
            "text",
            "user_input",
            "input_text",
            "string",
            "input",
            "query",
            "description",
            "prompt_text",
            "model.prompt",
            "tags",
            "describe",
            "orig_prompt",
        ];
        let class = node.class.to_ascii_lowercase();
        let enhances = class.contains("enhance") || class.contains("ltx");
        // It goes on with a conversation, of which its text is only the last question.
        if self.graph.linked(node, "messages").is_some() {
            return None;
        }
        let sees = self.graph.links(node).any(|(name, ..)| name.contains("image") || name.contains("video"));
        if sees && !enhances {
            return None;
        }
        let text = GIVEN.iter().find_map(|name| self.request(node, name)).filter(|text| !text.trim().is_empty())?;
        self.rewritten_by = self.rewritten_by.or(Some(node));
        Some(text)
    }

    /// Returns the text in an input of a language model, without the instruction that it may be joined with.
    fn request(&mut self, node: &'a Node, name: &str) -> Option<String> {
        const INSTRUCTS: [&str; 5] =
            ["prompt engineer", "text-to-image", "image-generation prompt", "image generation prompt", "user's prompt"];
        const ASKS: [&str; 7] = ["transform ", "rewrite ", "expand ", "enhance ", "improve ", "convert ", "refine "];
        let input = self.graph.input(node, name)?;
        let whole = self.follow(input)?;
        let is_instruction = |text: &str| {
            let text = text.trim_start().to_lowercase();
            let asks = ASKS.iter().any(|verb| text.starts_with(verb));
            let addresses =
                ["you are an expert", "you are an ai ", "you are a prompt", "your task is", "i want you to"];
            text.starts_with("you are ")
                || addresses.iter().any(|part| text.contains(part))
                || INSTRUCTS.iter().any(|part| text.contains(part))
                || asks && ["prompt", "following"].iter().any(|part| text.contains(part))
        };
        let Input::Link { node: from, .. } = input else { return Some(whole) };
        let parts: Vec<String> = match self.graph.node(from) {
            Some(join) if is_instruction(&whole) => {
                let names: Vec<&str> =
                    join.inputs.keys().map(String::as_str).filter(|name| is_text_input(name)).collect();
                names.into_iter().filter_map(|name| self.input(join, name)).collect()
            }
            _ => return Some(whole),
        };
        let mut asked = parts.into_iter().filter(|part| !part.trim().is_empty() && !is_instruction(part));
        // An instruction alone is not a prompt.
        asked.next().filter(|_| asked.next().is_none())
    }
}
