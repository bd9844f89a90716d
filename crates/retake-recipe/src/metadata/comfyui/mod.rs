//! ComfyUI: a queued graph (`prompt`), the editor's graph (`workflow`), or both, wherever a saver puts them.
//!
//! The graph is walked from the node that saved the image back to the nodes that made it: samplers, or a node that
//! called a provider. The recipe is that of the first sampling pass (its seed, steps, size and prompts); all passes are
//! listed. If a graph is ambiguous, all candidates are listed with the reason for the chosen one. If a saver wrote
//! A1111's text next to the graph and both have the same seed, the text takes precedence and the graph fills in what it
//! lacks; if they differ, the graph takes precedence, since some savers write their defaults.

mod arithmetic;
mod classes;
mod conditioning;
mod cone;
mod fingerprint;
mod graph;
mod groups;
mod known;
pub(crate) mod listing;
mod model;
mod patterns;
mod promoted;
mod provider;
mod rewriting;
mod switches;
mod texts;
mod trace;
mod values;
mod widgets;
mod workflow;

use std::borrow::Cow;

use serde_json::Value;

use super::container::{Format, Slot, Texts};
use super::fields::{self, At, Fields, at};
use super::{Candidate, Generator, Pass, a1111, json};
use crate::Hash;
use conditioning::PromptSide;
use graph::{Graph, Node, is_queued};
use trace::Outputs;
use workflow::is_workflow;

/// Reads ComfyUI's graphs.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let found = Found::of(texts);
    let mut fields = read_graphs(texts, &found)?;
    if let Some(written) = a1111::read(texts) {
        fields = merge(fields, written);
    }
    Some(fields)
}

/// Reads only the graphs, for tools that wrap ComfyUI.
pub(super) fn read_graph(texts: &Texts) -> Option<Fields> {
    read_graphs(texts, &Found::of(texts))
}

/// The graphs of a file, each with the index of its text.
#[derive(Default)]
struct Found<'a> {
    queued: Option<(usize, Cow<'a, Value>)>,
    workflow: Option<(usize, Cow<'a, Value>)>,
}

impl<'a> Found<'a> {
    fn of(texts: &'a Texts) -> Found<'a> {
        let mut found = Found::default();
        // The editor's graph is larger, and not needed if the queued one exists.
        for name in ["prompt", "workflow"] {
            if let (None, Some(index)) = (&found.queued, texts.png(name))
                && let Some(value) = texts.json(index)
            {
                found.offer(index, Cow::Borrowed(value));
            }
        }
        if found.queued.is_some() {
            return found;
        }
        for (index, raw) in texts.raw.iter().enumerate() {
            match raw.slot {
                Slot::C2pa | Slot::C2paIngredient | Slot::Xmp | Slot::Pixels(_) => {}
                _ => found.search(index, texts),
            }
        }
        found
    }

    /// Searches a text for graphs. Savers put both into one JSON, or each after its name: `prompt:{…}`,
    /// `Workflow: {…}`.
    fn search(&mut self, index: usize, texts: &'a Texts) {
        let text = texts.text(index).trim_start();
        let named = text
            .split_once(':')
            .filter(|(name, _)| ["prompt", "workflow"].iter().any(|known| name.eq_ignore_ascii_case(known)));
        if let Some(value) = named.and_then(|(_, rest)| json::parse(rest)) {
            return self.offer(index, Cow::Owned(value));
        }
        let Some(value) = texts.json(index) else { return };
        self.offer(index, Cow::Borrowed(value));
        for name in ["prompt", "workflow", "extra_pnginfo"] {
            match value.get(name) {
                Some(Value::String(inner)) => {
                    if let Some(inner) = json::parse(inner) {
                        self.offer(index, Cow::Owned(inner));
                    }
                }
                Some(inner) if name == "extra_pnginfo" => {
                    self.offer(index, Cow::Borrowed(inner.get("workflow").unwrap_or(inner)));
                }
                Some(inner) => self.offer(index, Cow::Borrowed(inner)),
                None => {}
            }
        }
    }

    fn offer(&mut self, index: usize, value: Cow<'a, Value>) {
        if self.queued.is_none() && is_queued(&value) {
            self.queued = Some((index, value));
        } else if self.workflow.is_none() && is_workflow(&value) {
            self.workflow = Some((index, value));
        }
    }
}

fn read_graphs(texts: &Texts, found: &Found<'_>) -> Option<Fields> {
    let (index, mut graph, value, kind) = match (&found.queued, &found.workflow) {
        (Some((index, value)), _) => (*index, Graph::of_queued(value), value, "prompt"),
        (None, Some((index, value))) => (*index, workflow::graph(value), value, "workflow"),
        (None, None) => return None,
    };
    let read = |graph: &Graph| {
        let mut fields = Fields::of(Generator::ComfyUi, at(index, format!("a graph as ComfyUI's `{kind}`")));
        let mut reader = GraphReader { graph, index, fields: &mut fields };
        reader.read(texts.name.as_deref(), texts.format.is_some_and(Format::is_video));
        fields
    };
    let mut fields = read(&graph);
    // The queued graph does not name the outputs of its nodes.
    let recipe = &fields.recipe;
    if recipe.seed.is_none() || recipe.steps.is_none() || recipe.prompt.is_empty() {
        let editor = texts.png("workflow").filter(|_| kind == "prompt").and_then(|index| texts.json(index));
        if let Some(editor) = editor.filter(|value| is_workflow(value)) {
            graph.name_outputs(&workflow::graph(editor));
            fields = read(&graph);
        }
    }
    written_prompt(texts, &mut fields);
    fields.workflow_fingerprint = Some(fingerprint::fingerprint(&graph));
    fields.run_key = Some(Hash::of(value.to_string().as_bytes()));
    fields.parameter(kind, value.clone().into_owned());
    Some(fields)
}

/// Reads the prompt that a saver wrote as a plain text next to the graph. It is that of this image, where the graph may
/// have a list of them.
fn written_prompt(texts: &Texts, fields: &mut Fields) {
    let plain = |name: &str| texts.png(name).filter(|index| texts.json(*index).is_none());
    let Some(index) = plain("prompt").or_else(|| plain("positive_prompt")) else { return };
    let text = texts.text(index).trim();
    let listed = fields.recipe.prompt.lines().any(|line| line.trim() == text);
    if text.is_empty() || !(listed || fields.recipe.prompt.is_empty()) {
        return;
    }
    fields.recipe.prompt.clear();
    fields.sources.retain(|source| source.field != "prompt");
    fields.prompt(at(index, "a plain text next to the graph"), text);
    if let Some(index) = plain("negative_prompt") {
        fields.negative(at(index, "a plain text next to the graph"), texts.text(index));
    }
}

struct GraphReader<'a> {
    graph: &'a Graph,
    index: usize,
    fields: &'a mut Fields,
}

impl<'a> GraphReader<'a> {
    fn read(&mut self, saved_as: Option<&str>, is_video: bool) {
        let graph = self.graph;
        let outputs = trace::outputs(graph, saved_as, is_video, trace::makes);
        let maker = outputs.taken.and_then(|output| trace::nearest(graph, output, trace::makes));
        let takes_image = |output: &usize| graph.node(*output).is_some_and(|output| trace::takes_image(graph, output));
        // Some language models draw, but not if no image leads to the output.
        let draws =
            |node: &Node| !rewriting::is_language_model(node) || outputs.taken.as_ref().is_some_and(takes_image);
        let asked = maker
            .and_then(|maker| graph.node(maker))
            .filter(|node| provider::asks(node) && !trace::is_sampler(node) && draws(node));
        self.list_candidates(&outputs);
        if let Some(node) = asked {
            self.request(node);
        } else {
            self.sampled(outputs.taken);
        }
        if self.fields.passes.is_empty() {
            let output = trace::outputs(graph, saved_as, is_video, cone::could_make).taken;
            self.made(output.filter(takes_image));
        }
        self.images();
        if self.fields.recipe.prompt.is_empty() {
            self.main_prompt();
        }
        if self.fields.recipe.prompt.is_empty() {
            self.unresolved();
        }
    }

    /// Reads the sampling passes that lead to an output.
    fn sampled(&mut self, output: Option<usize>) {
        let graph = self.graph;
        let passes: Vec<&Node> =
            trace::passes(graph, output).into_iter().rev().filter_map(|place| graph.node(place)).collect();
        for pass in &passes {
            let pass = self.pass(pass);
            self.fields.passes.push(pass);
        }
        // A pass that turns an image into noise did not make one.
        let undoes = |pass: &&Node| pass.inputs.get("sampler_mode").and_then(Value::as_str) == Some("unsample");
        let passes: Vec<&Node> = match passes.iter().filter(|pass| !undoes(pass)).count() {
            0 => passes,
            _ => passes.into_iter().filter(|pass| !undoes(pass)).collect(),
        };
        // The first pass made the image; later ones fill in what it lacks. A placeholder is not a lack.
        let mut is_seeded = false;
        for pass in &passes {
            self.settings(pass, !is_seeded);
            self.prompts(pass);
            is_seeded |= trace::setting(self.graph, pass, SEED.0, SEED.1).is_some();
        }
        if let Some(base) = passes.first() {
            if self.fields.recipe.prompt.is_empty() {
                self.only_prompt(base);
            }
            self.size(base);
            self.model(base);
            self.start(base);
        } else {
            self.only_request();
        }
    }

    /// Lists the prompts and seeds of all outputs, if they differ.
    fn list_candidates(&mut self, outputs: &Outputs) {
        const MOST: usize = 16;
        let graph = self.graph;
        if outputs.all.len() < 2 {
            return;
        }
        let mut found: Vec<(&'static str, String, String, bool)> = Vec::new();
        for output in outputs.all.iter().rev().take(MOST) {
            let taken = Some(*output) == outputs.taken;
            let label = graph.node(*output).map(Node::label).unwrap_or_default();
            let nearest = trace::nearest(graph, *output, trace::makes);
            let asked = nearest.and_then(|place| graph.node(place)).filter(|node| !trace::is_sampler(node));
            let first = || trace::passes(graph, Some(*output)).last().copied().and_then(|place| graph.node(place));
            let Some(maker) = asked.or_else(first) else { continue };
            let (prompt, seed) = if asked.is_some() {
                let request = provider::request(graph, maker);
                (request.prompt.map(|(_, text)| text.text), request.seed.map(|(_, seed)| seed))
            } else {
                let prompt = conditioning::prompt(graph, maker, PromptSide::Positive).map(|prompt| prompt.text);
                (prompt, trace::setting(graph, maker, SEED.0, SEED.1).map(|(_, seed)| seed))
            };
            let place = format!("node {}, saved by node {label}", maker.label());
            found.extend(prompt.map(|prompt| ("prompt", prompt, place.clone(), taken)));
            found.extend(seed.as_deref().and_then(json::plain).map(|seed| ("seed", seed, place, taken)));
        }
        for field in ["prompt", "seed"] {
            let of_field: Vec<_> = found.iter().filter(|(of, ..)| *of == field).collect();
            if of_field.iter().any(|(_, value, ..)| of_field.first().is_some_and(|(_, first, ..)| first != value)) {
                self.fields.candidates.extend(of_field.into_iter().map(|(_, value, place, taken)| Candidate {
                    field,
                    value: value.clone(),
                    place: place.clone(),
                    taken: *taken,
                    reason: if *taken { outputs.reason } else { "saved by another node" },
                }));
            }
        }
    }

    fn at(&self, node: &Node, input: &str) -> At {
        at(self.index, format!("node {}, `{input}`", node.label()))
    }

    /// Reads the settings of one pass.
    fn pass(&self, sampler: &Node) -> Pass {
        let name = |input: &str, through: &[&str]| self.name(sampler, input, through).map(|(_, name)| name);
        let number = |names: &[&str], through: &[&str]| {
            trace::setting(self.graph, sampler, names, through).map(|(_, value)| value)
        };
        Pass {
            name: sampler.label(),
            seed: number(SEED.0, SEED.1).as_deref().and_then(fields::seed),
            steps: number(STEPS.0, STEPS.1).as_deref().and_then(fields::whole),
            guidance_scale: number(CFG.0, CFG.1).as_deref().and_then(fields::number),
            sampler: name("sampler_name", &["sampler"]),
            scheduler: name("scheduler", &["sigmas"]),
            denoise: number(DENOISE.0, DENOISE.1).as_deref().and_then(fields::number),
        }
    }

    fn settings(&mut self, sampler: &'a Node, with_seed: bool) {
        let setting = |(names, through): (&[&str], &[&str])| trace::setting(self.graph, sampler, names, through);
        let (seed, steps, cfg, denoise) = (setting(SEED), setting(STEPS), setting(CFG), setting(DENOISE));
        // A sampler that adds no noise does not use its seed if another node made the noise.
        let noise =
            trace::noise_maker(self.graph, sampler).and_then(|node| trace::setting(self.graph, node, SEED.0, SEED.1));
        if let Some((node, value)) = noise.or(seed).filter(|_| with_seed) {
            self.fields.seed(self.at(node, "seed"), &value);
        }
        if let Some((node, value)) = steps {
            self.fields.steps(self.at(node, "steps"), &value);
        }
        if let Some((node, value)) = cfg {
            self.fields.guidance(self.at(node, "cfg"), &value);
        }
        if let Some((node, value)) = denoise {
            self.fields.denoise(self.at(node, "denoise"), &value);
        }
        if let Some((node, name)) = self.name(sampler, "sampler_name", &["sampler"]) {
            self.fields.sampler(self.at(node, "sampler_name"), &name);
        }
        if let Some((node, name)) = self.name(sampler, "scheduler", &["sigmas"]) {
            self.fields.scheduler(self.at(node, "scheduler"), &name);
        }
    }

    /// Returns a name that is set on a sampler or on one of its component nodes.
    fn name(&self, sampler: &'a Node, input: &str, through: &[&str]) -> Option<(&'a Node, String)> {
        let own = |node: &'a Node| values::name(self.graph, node, input).map(|name| (node, name));
        own(sampler).or_else(|| {
            through.iter().find_map(|part| {
                let mut place = self.graph.linked(sampler, part)?;
                for _ in 0..32 {
                    let node = self.graph.node(place)?;
                    if let Some(found) = own(node) {
                        return Some(found);
                    }
                    place = self.graph.linked(node, part)?;
                }
                None
            })
        })
    }

    fn prompts(&mut self, sampler: &'a Node) {
        for (side, name) in [(PromptSide::Positive, "positive"), (PromptSide::Negative, "negative")] {
            let Some(prompt) = conditioning::prompt(self.graph, sampler, side) else { continue };
            let rule = format!("{name} side of {}: {}", sampler.label(), labels(&prompt.nodes));
            let from = at(self.index, self.rewritten(rule, prompt.rewritten_by));
            match side {
                PromptSide::Positive => self.fields.prompt(from, &prompt.text),
                PromptSide::Negative => self.fields.negative(from, &prompt.text),
            };
        }
    }

    /// Adds to a rule that a language model rewrote the text.
    fn rewritten(&mut self, rule: String, by: Option<&Node>) -> String {
        let Some(by) = by else { return rule };
        let note = format!("node {} rewrote the prompt when the graph ran; its result is not in the file", by.label());
        if !self.fields.notes.contains(&note) {
            self.fields.notes.push(note);
        }
        format!("{rule}, as it was before node {} rewrote it", by.label())
    }

    /// Reads the size of the latent or image that the first pass starts from.
    fn size(&mut self, base: &'a Node) {
        let graph = self.graph;
        let number = |node: &'a Node, names: [&str; 2]| {
            Some((values::number(graph, node, names[0])?, values::number(graph, node, names[1])?))
        };
        let sides = |node: &'a Node| {
            number(node, ["width", "height"]).or_else(|| number(node, ["empty_latent_width", "empty_latent_height"]))
        };
        let Some(place) = graph.nodes.iter().position(|node| node.id == base.id) else { return };
        let named = |node: &Node| {
            values::name(graph, node, "resolution").and_then(|text| a1111::size(text.split([' ', '(']).next()?))
        };
        let sized = |node: &Node| node.has("width") || node.has("empty_latent_width") || node.has("resolution");
        let from = if sides(base).is_some() { Some(place) } else { trace::nearest(graph, place, sized) };
        let Some(node) = from.and_then(|place| graph.node(place)) else { return };
        if let Some((width, height)) = sides(node) {
            self.fields.size(self.at(node, "width`, `height"), &width, &height);
        } else if let Some((width, height)) = named(node) {
            self.fields.size(self.at(node, "resolution"), &width.into(), &height.into());
        }
    }

    fn model(&mut self, base: &'a Node) {
        let model = model::model(self.graph, base);
        if let Some((node, name)) = model.loader {
            self.fields.model(self.at(node, "the model's name"), &name, None);
        }
        for (node, name, weight) in model.loras {
            self.fields.lora(self.at(node, "LoRA"), &name, weight);
        }
        // Flux has its guidance next to the prompt, and a plain guider has no other.
        if self.fields.recipe.guidance_scale.is_none() {
            let guidance = self.graph.nodes.iter().find(|node| node.class == "FluxGuidance");
            if let Some((node, value)) =
                guidance.and_then(|node| Some((node, values::number(self.graph, node, "guidance")?)))
            {
                self.fields.guidance(self.at(node, "guidance"), &value);
            }
        }
    }

    /// Records whether the first pass started from an image.
    fn start(&mut self, base: &Node) {
        let place = self.graph.nodes.iter().position(|node| node.id == base.id);
        let loads = |node: &Node| is_loader(node);
        self.fields.evidence.from_image = place.and_then(|place| trace::nearest(self.graph, place, loads)).is_some();
    }

    /// Lists the names of the loaded images.
    fn images(&mut self) {
        for node in self.graph.nodes.iter().filter(|node| is_loader(node)) {
            let name = node.inputs.get("image").and_then(Value::as_str).unwrap_or_default();
            let name =
                [" [output]", " [input]", " [temp]"].iter().find_map(|mark| name.strip_suffix(mark)).unwrap_or(name);
            let name = name.rsplit(['/', '\\']).next().unwrap_or(name).to_owned();
            let names = &mut self.fields.evidence.image_names;
            // Pasted images may be inline, as base64.
            if !name.is_empty() && name.len() < 500 && !names.contains(&name) {
                names.push(name);
            }
        }
    }

    /// Reads the only provider request of a graph in which nothing leads to an output.
    fn only_request(&mut self) {
        let mut asking =
            self.graph.nodes.iter().filter(|node| provider::asks(node) && !rewriting::is_language_model(node));
        if let (Some(node), None) = (asking.next(), asking.next()) {
            self.request(node);
        }
    }

    /// Reads the only node before an output that could have made the image, although no rule recognises it.
    fn made(&mut self, output: Option<usize>) {
        let graph = self.graph;
        let mut made = trace::all_before(graph, output).into_iter().filter(|node| cone::could_make(node));
        let (Some(maker), None) = (made.next(), made.next()) else { return };
        let number = |input: Option<&'a str>| Some((input?, values::number(graph, maker, input?)?));
        let (seed, steps) = (number(cone::seed_input(maker)), number(cone::steps_input(maker)));
        if let Some((input, value)) = &seed {
            self.fields.seed(self.at(maker, input), value);
        }
        if let Some((input, value)) = &steps {
            self.fields.steps(self.at(maker, input), value);
        }
        self.settings(maker, true);
        self.prompts(maker);
        if self.fields.recipe.prompt.is_empty() {
            self.only_prompt(maker);
        }
        self.size(maker);
        self.model(maker);
        self.start(maker);
        self.fields.passes.push(Pass {
            name: maker.label(),
            seed: seed.and_then(|(_, seed)| fields::seed(&seed)),
            steps: steps.and_then(|(_, steps)| fields::whole(&steps)),
            ..Pass::default()
        });
    }

    /// Reads the only text that a node could have been prompted with.
    fn only_prompt(&mut self, maker: &'a Node) {
        if let Some((node, input, text)) = cone::prompt(self.graph, maker) {
            let rule = format!("node {}, `{input}`: the only text that leads to {}", node.label(), maker.label());
            self.fields.prompt(at(self.index, rule), &text);
        }
    }

    /// Reads a node's request to a provider.
    fn request(&mut self, node: &'a Node) {
        let request = provider::request(self.graph, node);
        if let Some((input, text)) = request.prompt {
            let rule = self.rewritten(format!("node {}, `{input}`", node.label()), text.rewritten_by);
            self.fields.prompt(at(self.index, rule), &text.text);
        }
        if let Some((input, text)) = request.negative {
            self.fields.negative(self.at(node, input), &text.text);
        }
        if let Some((input, seed)) = &request.seed {
            self.fields.seed(self.at(node, input), seed);
        }
        if let Some((input, steps)) = &request.steps {
            self.fields.steps(self.at(node, input), steps);
        }
        if let Some((input, model)) = request.model {
            self.fields.model(self.at(node, input), &model, None);
        }
        if let Some((width, height)) = request.size {
            self.fields.size(self.at(node, "width`, `height"), &width, &height);
        }
        self.fields.evidence.from_image = ["image", "images", "start_image", "first_frame", "reference_image"]
            .iter()
            .any(|name| self.graph.linked(node, name).is_some());
        self.fields.passes.push(Pass {
            name: node.label(),
            seed: request.seed.and_then(|(_, seed)| fields::seed(&seed)),
            steps: request.steps.and_then(|(_, steps)| fields::whole(&steps)),
            ..Pass::default()
        });
    }

    /// Reads the prompts of a graph that collects them in one node for several encoders (Searge).
    fn main_prompt(&mut self) {
        let graph = self.graph;
        let mut collecting = graph.nodes.iter().filter(|node| node.has("main_prompt"));
        let (Some(node), None) = (collecting.next(), collecting.next()) else { return };
        if let Some(text) = texts::text(graph, node, "main_prompt") {
            self.fields.prompt(self.at(node, "main_prompt"), &text.text);
        }
        if let Some(text) = texts::text(graph, node, "negative_main_prompt") {
            self.fields.negative(self.at(node, "negative_main_prompt"), &text.text);
        }
    }

    /// Lists the texts of a graph whose prompt was not found, for a person to judge.
    fn unresolved(&mut self) {
        const MOST: usize = 10;
        let texts =
            self.graph.nodes.iter().flat_map(|node| node.inputs.iter().map(move |(name, value)| (node, name, value)));
        let long =
            texts.filter_map(|(node, name, value)| Some((node, name, value.as_str()?))).filter(|(_, name, text)| {
                text.contains(' ')
                    && text.len() < 2000
                    && ["text", "prompt", "string", "value"].iter().any(|part| name.contains(part))
            });
        let notes: Vec<String> = long
            .take(MOST)
            .map(|(node, name, text)| format!("unresolved: node {}, `{name}`: {text}", node.label()))
            .collect();
        self.fields.notes.extend(notes);
    }
}

/// The inputs that hold a setting, and the component nodes that a sampler may be built from.
type Setting = (&'static [&'static str], &'static [&'static str]);
const SEED: Setting = (&["seed", "noise_seed", "main_seed"], &["noise"]);
const STEPS: Setting = (&values::STEPS, &["sigmas"]);
const CFG: Setting = (&trace::CFG, &["guider"]);
const DENOISE: Setting = (&["denoise"], &["sigmas"]);

fn is_loader(node: &Node) -> bool {
    node.class.starts_with("LoadImage")
        || (node.class.contains("LoadImage") && node.inputs.get("image").is_some_and(Value::is_string))
}

fn labels(nodes: &[&Node]) -> String {
    let mut labels: Vec<String> = nodes.iter().map(|node| format!("node {}", node.label())).collect();
    labels.dedup();
    labels.join(", ")
}

/// Merges the fields of the graph with those of the text next to it.
fn merge(graph: Fields, written: Fields) -> Fields {
    let knows = |seed: Option<u64>| seed.is_some() && graph.passes.iter().any(|pass| pass.seed == seed);
    let by = graph.by();
    let agree = knows(written.recipe.seed.map(|seed| seed.0)) || !graph.any();
    let (mut first, second) = if agree { (written, graph) } else { (graph, written) };
    if !agree {
        first.notes.push("the text next to the graph contradicts it; the graph is used".to_owned());
        return first;
    }
    first.fill_from(second);
    first.known_as(Generator::ComfyUi, by);
    first
}
