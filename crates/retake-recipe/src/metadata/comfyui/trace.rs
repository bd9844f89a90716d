//! Traces a graph from the node that saved the image back to its origin: the sampling passes and their settings.
//!
//! Nodes are recognised by their inputs rather than their names, since there are thousands of them: a node with a seed,
//! steps and a positive side is a sampler.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use super::conditioning::OWN_TEXTS;
use super::graph::{Graph, Node};
use super::{provider, values};

/// The maximum number of consecutive nodes that are followed.
pub(super) const MAX_STEPS: usize = 400;
/// The maximum number of nodes considered as the one that saved the image.
const MAX_OUTPUTS: usize = 100;
/// The maximum number of passes.
const MAX_PASSES: usize = 32;
/// Inputs that do not lead to the image or latent that a node processes.
pub(super) const ASIDE: [&str; 34] = [
    "model",
    "clip",
    "vae",
    "positive",
    "negative",
    "conditioning",
    "control_net",
    "upscale_model",
    "clip_vision",
    "clip_vision_output",
    "style_model",
    "mask",
    "guider",
    "sigmas",
    "sampler",
    "noise",
    "optional_vae",
    "base_model",
    "refiner_model",
    "bbox_detector",
    "sam_model_opt",
    "segm_detector_opt",
    "seed",
    "steps",
    "cfg",
    "text",
    "prompt",
    "denoise",
    "width",
    "height",
    "filename_prefix",
    "lora_stack",
    // The sound of a video.
    "audio",
    // Samples when it is applied to the latents that its node takes.
    "upscaler",
];
/// Inputs that bundle a model with its prompts.
pub(super) const PIPES: [&str; 11] = [
    "pipe",
    "pipe_in",
    "basic_pipe",
    "context",
    "base_ctx",
    "ctx",
    "sdxl_tuple",
    "sdxl_pipe",
    "detailer_pipe",
    "optional_pipe",
    "bus",
];

/// The inputs that hold the guidance scale.
pub(super) const CFG: [&str; 3] = ["cfg", "guidance_scale", "cfg_scale"];

/// Returns the samplers that the image went through on its way to `output`, last first; without an output, those of the
/// last sampler of the graph, unless another image was saved or shown.
pub(super) fn passes(graph: &Graph, output: Option<usize>) -> Vec<usize> {
    let mut passes = Vec::new();
    let mut from = output.or_else(|| last_sampler(graph).filter(|_| !shows_image(graph) && !saves_other(graph)));
    if let Some(first) = from.filter(|first| graph.node(*first).is_some_and(is_sampler)) {
        passes.push(first);
    }
    while let Some(next) = from.and_then(|from| earlier(graph, from)) {
        if passes.contains(&next) || passes.len() >= MAX_PASSES {
            break;
        }
        // It holds settings for the samplers after it, but not for one with settings of its own.
        let presets = graph.node(next).is_some_and(|node| node.class.contains("preSampling"));
        let is_set = from
            .and_then(|from| graph.node(from))
            .is_some_and(|node| node.has("steps") && !node.class.starts_with("easy pre"));
        if !(presets && is_set) {
            passes.push(next);
        }
        from = Some(next);
    }
    passes
}

/// Returns the sampler before a node: along images and latents, or the stage that its conditioning came from.
fn earlier(graph: &Graph, from: usize) -> Option<usize> {
    nearest(graph, from, is_sampler).or_else(|| {
        let mut node = graph.node(from).filter(|node| is_sampler(node))?;
        for _ in 0..MAX_STEPS {
            if let Some(stage) = graph.linked(node, "stage_c") {
                let samples = graph.node(stage).is_some_and(is_sampler);
                return if samples { Some(stage) } else { nearest(graph, stage, is_sampler) };
            }
            let next = ["positive", "conditioning"].iter().find_map(|name| graph.linked(node, name))?;
            node = graph.node(next)?;
        }
        None
    })
}

/// Returns the node that made the initial noise of a sampler, if the sampler adds none itself.
pub(super) fn noise_maker<'a>(graph: &'a Graph, sampler: &'a Node) -> Option<&'a Node> {
    let off = |value: &Value| value == "disable" || value == &Value::Bool(false);
    let disables = |noise: usize| graph.node(noise).is_some_and(|noise| noise.class.contains("DisableNoise"));
    if !sampler.inputs.get("add_noise").is_some_and(off) && !graph.linked(sampler, "noise").is_some_and(disables) {
        return None;
    }
    let place = graph.linked(sampler, "latent_image").or_else(|| graph.linked(sampler, "latent"))?;
    let makes = |node: &Node| {
        let class = node.class.to_ascii_lowercase();
        (class.contains("noise") || class.contains("noisy"))
            && ["seed", "noise_seed", "noise"].iter().any(|name| node.has(name))
            && !is_sampler(node)
    };
    let first = graph.node(place).filter(|node| makes(node));
    first.or_else(|| nearest(graph, place, makes).and_then(|place| graph.node(place)))
}

/// Returns whether a node samples, by its inputs.
pub(super) fn is_sampler(node: &Node) -> bool {
    let has = |name: &str| node.has(name);
    let seeded = has("seed") || has("noise_seed") || has("main_seed");
    let stepped = values::STEPS.iter().any(|name| has(name));
    let sided = has("positive") || has("negative") || has("cfg") || PIPES.iter().any(|pipe| has(pipe));
    let latent = ["latent_image", "latent", "samples"].iter().any(|name| has(name));
    let modelled = ["model", "base_model"].iter().any(|name| node.inputs.get(*name).is_some_and(Value::is_array));
    // A node that only collects settings passes them on to a sampler.
    let is_source = !node.inputs.values().any(Value::is_array);
    // A node that saves images stores the settings they were made with.
    // So does a context, for what comes after it.
    if node.class.starts_with("Context") {
        return false;
    }
    let saves = node.class.to_ascii_lowercase().contains("save") && takes_any(node, &["images", "image"]);
    if saves {
        return false;
    }
    if is_source && !OWN_TEXTS.iter().any(|name| has(name)) {
        return false;
    }
    // Some find their own schedule.
    (has("guider") && (has("sigmas") || has("noise")))
        // Some are guided by something else than a text.
        || (seeded && stepped && modelled)
        // The editor's graph may not tell which of its values are the steps.
        || (seeded && modelled && latent && node.inputs.keys().any(|name| name == "conditioning" || name.contains("positive")))
        // Some name neither seed nor steps.
        || (modelled && node.class.to_ascii_lowercase().contains("sampler") && node.inputs.get("positive").is_some_and(Value::is_array))
        // Guided without a negative side, or with one under another name.
        || (seeded && stepped && has("conditioning") && latent)
        || (seeded && sided && (stepped || has("sigmas")) && (has("sampler_name") || has("sampler") || has("cfg")))
}

fn takes_any(node: &Node, names: &[&str]) -> bool {
    names.iter().any(|name| node.has(name))
}

/// The nodes that could have saved the image.
pub(super) struct Outputs {
    /// All of them that lead to a node that makes an image, in the order of the graph.
    pub(super) all: Vec<usize>,
    /// The chosen one.
    pub(super) taken: Option<usize>,
    /// The reason for the choice.
    pub(super) reason: &'static str,
}

/// Finds the node that saved the file: the one whose prefix matches its name, or else the last one. A node that saves
/// videos did not save a still image, and the other way round.
pub(super) fn outputs(graph: &Graph, saved_as: Option<&str>, is_video: bool, makes: impl Fn(&Node) -> bool) -> Outputs {
    let leads = |place: &usize| nearest(graph, *place, &makes).is_some();
    let class = |node: &Node, part: &str| node.class.to_ascii_lowercase().contains(part);
    let of = |part: &str| -> Vec<usize> {
        let nodes = graph.nodes.iter().enumerate();
        nodes
            .filter(|(_, node)| takes_image(graph, node) && class(node, part))
            .map(|(place, _)| place)
            .take(MAX_OUTPUTS)
            .filter(leads)
            .collect()
    };
    let saves_video = |place: &usize| {
        graph
            .node(*place)
            .is_some_and(|node| graph.linked(node, "video").is_some() || class(node, "video") || class(node, "webm"))
    };
    let saves = if is_video {
        let videos: Vec<usize> = of("save").into_iter().chain(of("combine")).filter(saves_video).collect();
        if videos.is_empty() { of("save") } else { videos }
    } else {
        let (videos, stills): (Vec<usize>, Vec<usize>) = of("save").into_iter().partition(saves_video);
        if stills.is_empty() { videos } else { stills }
    };
    let fits = |place: &usize| {
        let prefix = graph.node(*place).and_then(|node| node.inputs.get("filename_prefix")?.as_str());
        prefix.zip(saved_as).and_then(|(prefix, name)| prefix_fit(prefix, name))
    };
    let best = saves.iter().filter_map(fits).max();
    if let Some(best) = best {
        let named: Vec<usize> = saves.into_iter().filter(|place| fits(place) == Some(best)).collect();
        let taken = named.last().copied();
        let reason = if named.len() == 1 {
            "its prefix is in the name of the file"
        } else {
            "the last of several nodes with this prefix"
        };
        return Outputs { all: named, taken, reason };
    }
    for (found, reason) in [
        (saves, "the last node that saves"),
        (of("combine"), "the last node that combines frames"),
        (of("preview"), "the last node that previews"),
    ] {
        if let Some(last) = found.last().copied() {
            let reason = if found.len() == 1 { "the only node that saves or shows an image" } else { reason };
            return Outputs { all: found, taken: Some(last), reason };
        }
    }
    let used: HashSet<usize> = graph.nodes.iter().flat_map(|node| graph.links(node).map(|(_, from, _)| from)).collect();
    // A node that saves, but no image, saves something else: a mesh, or sound.
    let saves_other = |place: &usize| graph.node(*place).is_some_and(|node| class(node, "save"));
    let unused = (0..graph.nodes.len()).rev().filter(|place| !used.contains(place) && !saves_other(place));
    let last = unused.take(MAX_OUTPUTS).find(leads);
    Outputs { all: last.into_iter().collect(), taken: last, reason: "the last node whose output is not used" }
}

/// Returns whether a node saves or shows an image.
fn shows_image(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| {
        let class = node.class.to_ascii_lowercase();
        takes_image(graph, node) && ["save", "combine", "preview"].iter().any(|part| class.contains(part))
    })
}

/// Returns whether a node saves or shows something other than an image: sound, or a mesh.
fn saves_other(graph: &Graph) -> bool {
    let has = |class: &str, parts: &[&str]| parts.iter().any(|part| class.contains(part));
    graph
        .nodes
        .iter()
        .map(|node| node.class.to_ascii_lowercase())
        .any(|class| has(&class, &["save", "preview", "export"]) && has(&class, &["audio", "mesh", "glb", "3d"]))
}

/// Returns whether images lead to a node.
pub(super) fn takes_image(graph: &Graph, node: &Node) -> bool {
    ["images", "image", "frames", "video"].iter().any(|name| graph.linked(node, name).is_some())
}

/// Returns how much of a file name a prefix covers. Prefixes may contain folders, and variables such as `%date:yyyy%`,
/// which match any text.
fn prefix_fit(prefix: &str, name: &str) -> Option<usize> {
    let prefix = prefix.rsplit(['/', '\\']).next().filter(|prefix| !prefix.is_empty())?;
    let mut rest = name;
    let mut covered = 0;
    for (place, part) in prefix.split('%').enumerate() {
        if place % 2 == 1 || part.is_empty() {
            continue;
        }
        let at = rest.find(part).filter(|at| place > 0 || *at == 0)?;
        rest = rest.get(at + part.len()..)?;
        covered += part.len();
    }
    (covered > 0).then_some(covered)
}

/// Returns whether a node makes an image: by sampling, or by calling a provider.
pub(super) fn makes(node: &Node) -> bool {
    is_sampler(node) || provider::asks(node)
}

fn last_sampler(graph: &Graph) -> Option<usize> {
    (0..graph.nodes.len()).rev().find(|place| graph.node(*place).is_some_and(is_sampler))
}

/// Returns the nearest node before this one, along images and latents, that matches.
pub(super) fn nearest(graph: &Graph, from: usize, mut wanted: impl FnMut(&Node) -> bool) -> Option<usize> {
    let mut queue = VecDeque::from([from]);
    let mut seen = HashSet::from([from]);
    while let Some(place) = queue.pop_front() {
        let node = graph.node(place)?;
        if place != from && wanted(node) {
            return Some(place);
        }
        for (name, next, _) in graph.links(node) {
            if !ASIDE.contains(&name) && seen.insert(next) {
                queue.push_back(next);
            }
        }
    }
    None
}

/// Returns all nodes before an output, along images and latents.
pub(super) fn all_before(graph: &Graph, output: Option<usize>) -> Vec<&Node> {
    let mut found = HashSet::new();
    if let Some(output) = output {
        nearest(graph, output, |node| {
            found.insert(node.id.clone());
            false
        });
    }
    graph.nodes.iter().filter(|node| found.contains(&node.id)).collect()
}

/// Returns a setting of a sampler: its own, or that of its component nodes.
pub(super) fn setting<'a>(
    graph: &'a Graph,
    sampler: &'a Node,
    names: &[&str],
    through: &[&str],
) -> Option<(&'a Node, Cow<'a, Value>)> {
    let own =
        |node: &'a Node| names.iter().find_map(|name| values::number(graph, node, name)).map(|value| (node, value));
    // A schedule that is linked replaces the sampler's own.
    let replaced = graph.linked(sampler, "opt_sigmas").filter(|_| through.contains(&"sigmas"));
    if let Some(schedule) = replaced.and_then(|place| graph.node(place)) {
        return own(schedule);
    }
    own(sampler).or_else(|| {
        through.iter().find_map(|part| {
            let mut place = graph.linked(sampler, part)?;
            for _ in 0..MAX_STEPS {
                let node = graph.node(place)?;
                // Some servers call every number a value; a node that makes noise has only its seed.
                let only = || Some((node, values::number(graph, node, "value")?)).filter(|_| *part == "noise");
                if let Some(found) = own(node).or_else(only) {
                    return Some(found);
                }
                place = graph.linked(node, part)?;
            }
            None
        })
    })
}
