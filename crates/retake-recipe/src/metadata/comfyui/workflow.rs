//! Converts graphs saved by ComfyUI's editor to the queued format: links by number become links by node, values by
//! position get names, muted nodes are left out, bypassed ones are bypassed, and subgraphs are expanded.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::graph::{Graph, MAX_NODES, Node};

/// The maximum nesting depth of subgraphs, and the maximum number of consecutive links that are followed.
const MAX_DEPTH: usize = 16;
/// The maximum number of subgraphs that are expanded.
const MAX_SCOPES: usize = 500;
/// The modes of a node.
const MUTED: u64 = 2;
const BYPASSED: u64 = 4;
/// The ids that represent the inputs and the outputs of a subgraph inside it.
const SUBGRAPH_INPUTS: &str = "-10";
const SUBGRAPH_OUTPUTS: &str = "-20";

/// The values of core classes in the order in which the editor saves them. The value that the editor adds after a seed
/// (`control_after_generate`) is left out here and skipped when values are named.
const WIDGETS: &[(&str, &[&str])] = &[
    ("KSampler", &["seed", "steps", "cfg", "sampler_name", "scheduler", "denoise"]),
    ("KSampler (Efficient)", &["seed", "steps", "cfg", "sampler_name", "scheduler", "denoise"]),
    (
        "KSamplerAdvanced",
        &[
            "add_noise",
            "noise_seed",
            "steps",
            "cfg",
            "sampler_name",
            "scheduler",
            "start_at_step",
            "end_at_step",
            "return_with_leftover_noise",
        ],
    ),
    ("SamplerCustom", &["add_noise", "noise_seed", "cfg"]),
    ("CogVideoSampler", &["height", "width", "num_frames", "steps", "cfg", "seed", "scheduler"]),
    (
        "ttN pipeLoader_v2",
        &[
            "ckpt_name",
            "config_name",
            "vae_name",
            "clip_skip",
            "loras",
            "positive",
            "positive_token_normalization",
            "positive_weight_interpretation",
            "negative",
            "negative_token_normalization",
            "negative_weight_interpretation",
            "empty_latent_aspect",
            "empty_latent_width",
            "empty_latent_height",
            "batch_size",
            "seed",
        ],
    ),
    (
        "ttN pipeKSampler_v2",
        &[
            "lora_name",
            "lora_strength",
            "upscale_method",
            "upscale_model_name",
            "factor",
            "rescale",
            "percent",
            "width",
            "height",
            "longer_side",
            "crop",
            "steps",
            "cfg",
            "sampler_name",
            "scheduler",
            "denoise",
            "image_output",
            "save_prefix",
            "file_type",
            "embed_workflow",
            "seed",
        ],
    ),
    ("RandomNoise", &["noise_seed"]),
    ("KSamplerSelect", &["sampler_name"]),
    ("BasicScheduler", &["scheduler", "steps", "denoise"]),
    ("CFGGuider", &["cfg"]),
    ("FluxGuidance", &["guidance"]),
    ("CLIPTextEncode", &["text"]),
    (
        "CLIPTextEncodeSDXL",
        &["width", "height", "crop_w", "crop_h", "target_width", "target_height", "text_g", "text_l"],
    ),
    ("CLIPTextEncodeSDXLRefiner", &["ascore", "width", "height", "text"]),
    ("CLIPTextEncodeFlux", &["clip_l", "t5xxl", "guidance"]),
    ("CLIPTextEncodeSD3", &["clip_l", "clip_g", "t5xxl", "empty_padding"]),
    ("TextEncodeQwenImageEdit", &["prompt"]),
    ("TextEncodeQwenImageEditPlus", &["prompt"]),
    ("CLIPTextEncodeHiDream", &["clip_l", "clip_g", "t5xxl", "llama"]),
    ("CLIPTextEncodeHunyuanDiT", &["bert", "mt5xl"]),
    ("CLIPTextEncodeLumina2", &["system_prompt", "user_prompt"]),
    ("CheckpointLoaderSimple", &["ckpt_name"]),
    ("CheckpointLoader", &["config_name", "ckpt_name"]),
    ("ImageOnlyCheckpointLoader", &["ckpt_name"]),
    ("unCLIPCheckpointLoader", &["ckpt_name"]),
    ("UNETLoader", &["unet_name", "weight_dtype"]),
    ("UnetLoaderGGUF", &["unet_name"]),
    ("LoraLoader", &["lora_name", "strength_model", "strength_clip"]),
    ("LoraLoaderModelOnly", &["lora_name", "strength_model"]),
    ("EmptyLatentImage", &["width", "height", "batch_size"]),
    ("EmptySD3LatentImage", &["width", "height", "batch_size"]),
    ("EmptyHunyuanLatentVideo", &["width", "height", "length", "batch_size"]),
    ("EmptyMochiLatentVideo", &["width", "height", "length", "batch_size"]),
    ("EmptyLTXVLatentVideo", &["width", "height", "length", "batch_size"]),
    ("LatentUpscale", &["upscale_method", "width", "height", "crop"]),
    ("ImageScale", &["upscale_method", "width", "height", "crop"]),
    ("LoadImage", &["image"]),
    ("LoadImageMask", &["image", "channel"]),
    ("SaveImage", &["filename_prefix"]),
    ("SaveAnimatedWEBP", &["filename_prefix"]),
    ("PrimitiveString", &["value"]),
    ("PrimitiveStringMultiline", &["value"]),
    ("PrimitiveInt", &["value"]),
    ("PrimitiveBoolean", &["value"]),
    ("MoonvalleyTxt2VideoNode", &["prompt", "negative_prompt", "resolution", "prompt_adherence", "seed", "steps"]),
    ("MoonvalleyImg2VideoNode", &["prompt", "negative_prompt", "resolution", "prompt_adherence", "seed", "steps"]),
    ("StableCascade_EmptyLatentImage", &["width", "height", "compression", "batch_size"]),
    ("ADE_AnimateDiffLoaderWithContext", &["model_name", "beta_schedule"]),
    ("SamplerCustomAdvanced", &[]),
    ("DualCFGGuider", &["cfg_conds", "cfg_cond2_negative"]),
    ("CLIPVisionLoader", &["clip_name"]),
    ("VAELoader", &["vae_name"]),
    ("CLIPLoader", &["clip_name", "type"]),
    ("UpscaleModelLoader", &["model_name"]),
    ("ControlNetLoader", &["control_net_name"]),
    ("StyleModelLoader", &["style_model_name"]),
    ("PrimitiveFloat", &["value"]),
    ("StringConcatenate", &["string_a", "string_b", "delimiter"]),
    ("Seed (rgthree)", &["seed"]),
    (
        "Efficient Loader",
        &[
            "ckpt_name",
            "vae_name",
            "clip_skip",
            "lora_name",
            "lora_model_strength",
            "lora_clip_strength",
            "positive",
            "negative",
            "token_normalization",
            "weight_interpretation",
            "empty_latent_width",
            "empty_latent_height",
        ],
    ),
];

/// Returns whether this is a graph of the editor: it has nodes, all with a type and an id.
pub(super) fn is_workflow(value: &Value) -> bool {
    let is_node = |node: &Value| node.get("type").is_some_and(Value::is_string) && node.get("id").is_some();
    let nodes = value.get("nodes").and_then(Value::as_array);
    nodes.is_some_and(|nodes| !nodes.is_empty() && nodes.iter().all(is_node))
}

/// Converts a workflow to a graph.
pub(super) fn graph(value: &Value) -> Graph {
    let mut unfolding = Unfolding { definitions: subgraphs(value).collect(), scopes: Vec::new(), nodes: 0 };
    unfolding.unfold(value, String::new(), None, 0);
    Graph::of(unfolding.flat())
}

/// A workflow or an expanded subgraph.
struct Scope<'a> {
    /// The prefix of its node ids.
    prefix: String,
    nodes: HashMap<String, &'a Value>,
    /// In the order of the file.
    order: Vec<String>,
    /// Links by number: their source node and output.
    links: HashMap<u64, (String, u64)>,
    /// The outputs of a subgraph by position: the node and the output inside.
    outputs: HashMap<u64, (String, u64)>,
    /// The enclosing scope, and the node there that represents this one.
    around: Option<(usize, &'a Value)>,
    /// The scopes of the nodes that represent subgraphs.
    within: HashMap<String, usize>,
}

struct Unfolding<'a> {
    definitions: HashMap<&'a str, &'a Value>,
    scopes: Vec<Scope<'a>>,
    nodes: usize,
}

/// The end of a link.
enum End {
    Node(String, u64),
    Literal(Value),
}

impl<'a> Unfolding<'a> {
    fn unfold(
        &mut self,
        graph: &'a Value,
        prefix: String,
        around: Option<(usize, &'a Value)>,
        depth: usize,
    ) -> Option<usize> {
        if depth > MAX_DEPTH || self.scopes.len() >= MAX_SCOPES {
            return None;
        }
        let (mut links, mut outputs) = (HashMap::new(), HashMap::new());
        for Link { number, from, slot, to, to_slot } in self::links(graph) {
            if to == SUBGRAPH_OUTPUTS {
                outputs.insert(to_slot, (from.clone(), slot));
            }
            links.insert(number, (from, slot));
        }
        let room = MAX_NODES.saturating_sub(self.nodes);
        let nodes: Vec<(String, &Value)> = nodes(graph).take(room).collect();
        self.nodes += nodes.len();
        let order: Vec<String> = nodes.iter().map(|(id, _)| id.clone()).collect();
        let here = self.scopes.len();
        self.scopes.push(Scope {
            prefix: prefix.clone(),
            nodes: nodes.iter().cloned().collect(),
            order,
            links,
            outputs,
            around,
            within: HashMap::new(),
        });
        for (id, node) in nodes {
            let inner = class(node).and_then(|class| self.definitions.get(class).copied());
            if let Some(inner) = inner
                && let Some(scope) = self.unfold(inner, format!("{prefix}{id}:"), Some((here, node)), depth + 1)
                && let Some(here) = self.scopes.get_mut(here)
            {
                here.within.insert(id, scope);
            }
        }
        Some(here)
    }

    /// Returns the nodes that run.
    fn flat(&self) -> Vec<Node> {
        let mut flat = Vec::new();
        let everywhere = Everywhere::of(&self.scopes);
        for (place, scope) in self.scopes.iter().enumerate() {
            for (id, node) in scope.order.iter().filter_map(|id| Some((id, *scope.nodes.get(id)?))) {
                let class = class(node).unwrap_or_default();
                let only_drawn =
                    ["Reroute", "PrimitiveNode", "Note", "MarkdownNote", "GetNode", "SetNode"].contains(&class);
                if only_drawn || matches!(mode(node), MUTED | BYPASSED) || scope.within.contains_key(id) {
                    continue;
                }
                let mut inputs = widgets(class, node);
                for (name, broadcast) in everywhere.supplied(place, node) {
                    if let Some(End::Node(from, slot)) = self.by_link(place, broadcast, 0) {
                        inputs.insert(name.to_owned(), json!([from, slot]));
                    }
                }
                for (name, link) in linked_inputs(node) {
                    let end = scope.links.get(&link).and_then(|(from, slot)| self.follow(place, from, *slot, 0));
                    match end {
                        Some(End::Node(from, slot)) => inputs.insert(name.to_owned(), json!([from, slot])),
                        Some(End::Literal(value)) => inputs.insert(name.to_owned(), value),
                        // The value it had before it was made an input is still there, and counts.
                        None => None,
                    };
                }
                flat.push(Node { id: format!("{}{id}", scope.prefix), class: class.to_owned(), inputs });
            }
        }
        flat
    }

    /// Follows an output to its source node.
    fn follow(&self, place: usize, id: &str, slot: u64, depth: usize) -> Option<End> {
        if depth > MAX_DEPTH * 4 {
            return None;
        }
        let scope = self.scopes.get(place)?;
        if id == SUBGRAPH_INPUTS {
            let (outer, node) = scope.around?;
            let input = node.get("inputs")?.as_array()?.get(usize::try_from(slot).ok()?)?;
            return match input.get("link").and_then(Value::as_u64) {
                Some(link) => self.by_link(outer, link, depth),
                // A value that the subgraph's node exposes as its own.
                None => widgets("", node).get(input.get("name")?.as_str()?).cloned().map(End::Literal),
            };
        }
        let node = *scope.nodes.get(id)?;
        if let Some(inner) = scope.within.get(id) {
            let (from, slot) = self.scopes.get(*inner)?.outputs.get(&slot)?;
            return self.follow(*inner, from, *slot, depth + 1);
        }
        let first_input = || linked_inputs(node).next().map(|(_, link)| link);
        match (class(node)?, mode(node)) {
            (_, MUTED) => None,
            ("Reroute" | "SetNode", _) => self.by_link(place, first_input()?, depth),
            ("PrimitiveNode", _) => Some(End::Literal(node.pointer("/widgets_values/0")?.clone())),
            ("GetNode", _) => {
                let wanted = node.pointer("/widgets_values/0")?;
                let sets = |node: &&&Value| {
                    class(node) == Some("SetNode") && node.pointer("/widgets_values/0") == Some(wanted)
                };
                let set = scope.nodes.values().find(sets)?;
                self.by_link(place, linked_inputs(set).next()?.1, depth)
            }
            (_, BYPASSED) => {
                // A bypassed node passes on an input of the same type.
                let wanted = node.get("outputs")?.as_array()?.get(usize::try_from(slot).ok()?)?.get("type")?;
                let inputs = node.get("inputs")?.as_array()?;
                let same = inputs
                    .iter()
                    .find(|input| input.get("type") == Some(wanted) && input.get("link").is_some_and(Value::is_u64))?;
                self.by_link(place, same.get("link")?.as_u64()?, depth)
            }
            _ => Some(End::Node(format!("{}{id}", scope.prefix), slot)),
        }
    }

    fn by_link(&self, place: usize, link: u64, depth: usize) -> Option<End> {
        let (from, slot) = self.scopes.get(place)?.links.get(&link)?;
        self.follow(place, from, *slot, depth + 1)
    }
}

/// The nodes that supply every unconnected input of a type (`Anything Everywhere`), or the sides of every sampler
/// (`Prompts Everywhere`).
struct Everywhere<'a> {
    /// For each scope: the type supplied, a part of the names of the inputs it is meant for, and the link.
    supplies: Vec<Vec<(&'a str, String, u64)>>,
}

impl<'a> Everywhere<'a> {
    fn of(scopes: &[Scope<'a>]) -> Everywhere<'a> {
        let of_node = |node: &'a Value| -> Vec<(&'a str, String, u64)> {
            let class = class(node).unwrap_or_default();
            let inputs = node.get("inputs").and_then(Value::as_array).into_iter().flatten();
            let linked = inputs.filter_map(|input| {
                // Their inputs take anything, and are named after what is connected.
                let kind = match input.get("type")?.as_str()? {
                    "*" => input.get("name")?.as_str()?,
                    kind => kind,
                };
                Some((kind, input.get("link")?.as_u64()?))
            });
            match class {
                "Prompts Everywhere" => linked
                    .zip(["positive", "negative"])
                    .map(|((kind, link), side)| (kind, side.to_owned(), link))
                    .collect(),
                "Anything Everywhere" | "Anything Everywhere3" => {
                    linked.map(|(kind, link)| (kind, String::new(), link)).collect()
                }
                // Restricted by patterns for the titles of nodes, the names of inputs and groups. Only a plain name of
                // an input is understood.
                "Anything Everywhere?" => {
                    let pattern = |place: usize| node.get("widgets_values")?.get(place)?.as_str();
                    let plain = |pattern: &str| pattern.chars().all(|it| it.is_alphanumeric() || it == '_');
                    let others_empty = [0, 2].iter().all(|place| matches!(pattern(*place), None | Some("" | ".*")));
                    let name = pattern(1).unwrap_or_default().replace(".*", "");
                    let understood = others_empty && plain(&name);
                    linked.filter(|_| understood).map(|(kind, link)| (kind, name.clone(), link)).collect()
                }
                _ => Vec::new(),
            }
        };
        let of_scope = |scope: &Scope<'a>| {
            let nodes = scope.order.iter().filter_map(|id| scope.nodes.get(id).copied());
            nodes.filter(|node| !matches!(mode(node), MUTED | BYPASSED)).flat_map(of_node).collect()
        };
        Everywhere { supplies: scopes.iter().map(of_scope).collect() }
    }

    /// Returns the unconnected inputs of a node that are supplied, with the link that supplies each.
    fn supplied(&self, scope: usize, node: &'a Value) -> Vec<(&'a str, u64)> {
        let supplies = self.supplies.get(scope).map_or(&[][..], Vec::as_slice);
        if supplies.is_empty() {
            return Vec::new();
        }
        let inputs = node.get("inputs").and_then(Value::as_array).into_iter().flatten();
        let open = inputs.filter(|input| input.get("link").is_none_or(Value::is_null));
        let found = open.filter_map(|input| {
            let (name, kind) = (input.get("name")?.as_str()?, input.get("type")?.as_str()?);
            // A value of its own is only replaced if it is meant.
            let is_value = input.get("widget").is_some();
            let fits = |part: &str| name.contains(part) && !(is_value && part.is_empty());
            let mut fitting = supplies.iter().filter(|(of, part, _)| *of == kind && fits(part));
            // Two that fit leave it open.
            let (_, _, link) = fitting.next().filter(|_| fitting.next().is_none())?;
            Some((name, *link))
        });
        found.collect()
    }
}

/// Iterates over the nodes of a workflow or subgraph with their ids, in the order of the file.
pub(super) fn nodes(graph: &Value) -> impl Iterator<Item = (String, &Value)> {
    let listed = graph.get("nodes").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|node| Some((id(node.get("id")?)?, node)))
}

/// Iterates over the links of a workflow or subgraph.
pub(super) fn links(graph: &Value) -> impl Iterator<Item = Link> + '_ {
    graph.get("links").and_then(Value::as_array).into_iter().flatten().filter_map(Link::read)
}

/// Iterates over the subgraphs that a workflow defines, with their ids.
pub(super) fn subgraphs(graph: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let definitions = graph.pointer("/definitions/subgraphs").and_then(Value::as_array).into_iter().flatten();
    definitions.filter_map(|subgraph| Some((subgraph.get("id")?.as_str()?, subgraph)))
}

/// Returns the class of a node.
pub(super) fn class(node: &Value) -> Option<&str> {
    node.get("type")?.as_str()
}

fn mode(node: &Value) -> u64 {
    node.get("mode").and_then(Value::as_u64).unwrap_or(0)
}

/// Returns an id, which is a number, or a name in the files of some tools.
fn id(value: &Value) -> Option<String> {
    crate::metadata::json::plain(value)
}

/// A link from an output of one node to an input of another.
pub(super) struct Link {
    /// Its number, by which inputs refer to it.
    pub(super) number: u64,
    /// The id of its source node.
    pub(super) from: String,
    /// The number of that node's output.
    pub(super) slot: u64,
    to: String,
    to_slot: u64,
}

impl Link {
    /// Parses `[number, from, slot, to, slot, type]`, or the same as an object.
    fn read(link: &Value) -> Option<Link> {
        let part = |place: usize, name: &str| link.get(place).or_else(|| link.get(name));
        let number = |place: usize, name: &str| part(place, name)?.as_u64();
        Some(Link {
            number: number(0, "id")?,
            from: id(part(1, "origin_id")?)?,
            slot: number(2, "origin_slot")?,
            to: id(part(3, "target_id")?)?,
            to_slot: number(4, "target_slot")?,
        })
    }
}

/// Iterates over the linked inputs of a node, with the numbers of the links.
pub(super) fn linked_inputs(node: &Value) -> impl Iterator<Item = (&str, u64)> {
    let inputs = node.get("inputs").and_then(Value::as_array).into_iter().flatten();
    inputs.filter_map(|input| Some((input.get("name")?.as_str()?, input.get("link")?.as_u64()?)))
}

/// Returns the values of a node with their names; a value with an unknown name is named by its position.
pub(super) fn named_widgets<'a>(class: &str, node: &'a Value) -> Vec<(String, &'a Value)> {
    let values = match node.get("widgets_values") {
        Some(Value::Object(named)) => return named.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Some(Value::Array(values)) => values,
        _ => return Vec::new(),
    };
    let mut names = WIDGETS.iter().find(|(name, _)| *name == class).map_or(&[][..], |(_, names)| names).iter();
    let mut after_seed = false;
    let mut found = Vec::new();
    for (place, value) in values.iter().enumerate() {
        if std::mem::take(&mut after_seed) && is_control(value) {
            found.push(("control_after_generate".to_owned(), value));
            continue;
        }
        let name = names.next();
        after_seed = name.is_some_and(|name| ["seed", "noise_seed"].contains(name));
        found.push((name.map_or_else(|| format!("value {place}"), |name| (*name).to_owned()), value));
    }
    found
}

/// Returns whether a value is the one that the editor adds after a seed.
fn is_control(value: &Value) -> bool {
    let known = |it: &str| ["fixed", "increment", "decrement", "randomize"].contains(&it);
    value.is_boolean() || value.as_str().is_some_and(known)
}

/// Returns the values of a node by name: from the table, or from what newer editors write about them.
fn widgets(class: &str, node: &Value) -> Map<String, Value> {
    let values = match node.get("widgets_values") {
        Some(Value::Object(named)) => return named.clone(),
        Some(Value::Array(values)) => values,
        _ => return Map::new(),
    };
    if let Some((_, names)) = WIDGETS.iter().find(|(name, _)| *name == class) {
        return named(names, values).0;
    }
    let inputs = node.get("inputs").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = inputs.filter_map(|input| input.pointer("/widget/name")?.as_str()).collect();
    let lists_all = node.pointer("/inputs/0/localized_name").is_some();
    match named(&names, values) {
        // Older editors only list values that were made inputs; newer ones, which also state the display name of each,
        // list all of them.
        (named, whole) if !names.is_empty() && (whole || lists_all) => named,
        _ => match values.as_slice() {
            [value @ Value::String(_)] => Map::from_iter([("text".to_owned(), value.clone())]),
            [value @ Value::String(_), ..] if class.to_ascii_lowercase().contains("textencode") => {
                Map::from_iter([("text".to_owned(), value.clone())])
            }
            // The only value of a node that makes a schedule is its length.
            [value @ Value::Number(_)] if node.pointer("/outputs/0/type") == Some(&"SIGMAS".into()) => {
                Map::from_iter([("steps".to_owned(), value.clone())])
            }
            [value @ Value::Number(_)] => Map::from_iter([("value".to_owned(), value.clone())]),
            values if sampling(values).is_some() => sampling(values).unwrap_or_default(),
            // The editor adds a control only after a seed.
            [seed @ Value::Number(_), control, ..] if control.is_string() && is_control(control) => {
                Map::from_iter([("seed".to_owned(), seed.clone())])
            }
            _ => values
                .iter()
                .enumerate()
                .filter(|(_, value)| value.is_object())
                // rgthree stores each LoRA as an object.
                .map(|(place, value)| (format!("lora_{place}"), value.clone()))
                .collect(),
        },
    }
}

/// Names the values of a sampler of an unknown class, which nearly all copy from ComfyUI's own: a seed and its control,
/// steps, guidance, sampler, scheduler, and how much is changed. A known scheduler in its place is required.
fn sampling(values: &[Value]) -> Option<Map<String, Value>> {
    const SCHEDULERS: [&str; 10] = [
        "normal",
        "karras",
        "exponential",
        "sgm_uniform",
        "simple",
        "ddim_uniform",
        "beta",
        "linear_quadratic",
        "kl_optimal",
        "bong_tangent",
    ];
    let scheduled = |value: &Value| value.as_str().is_some_and(|name| SCHEDULERS.contains(&name));
    values.windows(6).enumerate().find_map(|(place, window)| {
        let [seed, control, steps, cfg, sampler, scheduler] = window else { return None };
        let fits = seed.is_u64()
            && control.is_string()
            && is_control(control)
            && steps.is_u64()
            && cfg.is_number()
            && sampler.is_string()
            && scheduled(scheduler);
        let denoise = values.get(place + 6).filter(|value| value.as_f64().is_some_and(|share| share <= 1.0));
        let named =
            [("seed", seed), ("steps", steps), ("cfg", cfg), ("sampler_name", sampler), ("scheduler", scheduler)];
        let named = named.into_iter().chain(denoise.map(|denoise| ("denoise", denoise)));
        fits.then(|| named.map(|(name, value)| (name.to_owned(), value.clone())).collect())
    })
}

/// Names each value, and returns whether names and values match one to one.
fn named(names: &[&str], values: &[Value]) -> (Map<String, Value>, bool) {
    let mut values = values.iter().peekable();
    let mut found = Map::new();
    for name in names {
        let Some(value) = values.next() else { return (found, false) };
        found.insert((*name).to_owned(), value.clone());
        if ["seed", "noise_seed"].contains(name) {
            values.next_if(|value| is_control(value));
        }
    }
    (found, values.next().is_none())
}
