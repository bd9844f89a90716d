//! Vendors that sign or label their images without embedding a prompt: C2PA claims, XMP and IPTC labels, EXIF
//! signatures.
//!
//! A claim counts as "made by this vendor" only if it states that a model made the whole image. The claim may be in the
//! file's own manifest or in that of its only ingredient: services sign an image when it is made, and again when it is
//! delivered. Nothing is verified here, and every reading states whether its source is signed at all.

use serde_json::Value;

use super::container::{SIGNATURE, Slot, Texts};
use super::fields::{self, Fields, at};
use super::xmp::{Namespace, Packet};
use super::{Claim, ClaimSource, Created, Generator, Precision, SignatureState};

/// The source type of an image made entirely by a model; composites have another one.
const MADE_BY_MODEL: &str = "trainedAlgorithmicMedia";
/// The maximum number of manifests that are followed back.
const MAX_PARENTS: usize = 8;
/// Actions that do not change the content of an image.
const DELIVERY: [&str; 10] = [
    "c2pa.opened",
    "c2pa.converted",
    "c2pa.transcoded",
    "c2pa.repackaged",
    "c2pa.published",
    "c2pa.watermarked",
    "c2pa.watermarked.bound",
    "c2pa.watermarked.unbound",
    "c2pa.resized",
    "c2pa.unknown",
];

/// Words in the name of a claim generator or a software agent, and their vendors.
const MAKERS: [(&str, Generator); 33] = [
    ("openai", Generator::OpenAi),
    ("chatgpt", Generator::OpenAi),
    ("gpt-", Generator::OpenAi),
    ("dall-e", Generator::OpenAi),
    ("dall·e", Generator::OpenAi),
    ("dalle", Generator::OpenAi),
    ("sora", Generator::OpenAi),
    ("firefly", Generator::AdobeFirefly),
    ("bing", Generator::BingImageCreator),
    ("designer", Generator::MicrosoftDesigner),
    ("microsoft_responsible_ai", Generator::MicrosoftDesigner),
    ("titan", Generator::Amazon),
    ("amazon", Generator::Amazon),
    ("nova canvas", Generator::Amazon),
    ("grok", Generator::XAi),
    ("xai", Generator::XAi),
    ("x.ai", Generator::XAi),
    ("black forest labs", Generator::BlackForestLabs),
    ("black-forest-labs", Generator::BlackForestLabs),
    ("bfl", Generator::BlackForestLabs),
    ("bytedance", Generator::ByteDance),
    ("byteplus", Generator::ByteDance),
    ("seedream", Generator::ByteDance),
    ("seededit", Generator::ByteDance),
    ("jimeng", Generator::ByteDance),
    ("dreamina", Generator::ByteDance),
    ("doubao", Generator::ByteDance),
    ("volcengine", Generator::ByteDance),
    ("samsung", Generator::Samsung),
    ("galaxy ai", Generator::Samsung),
    ("google", Generator::Google),
    ("gemini", Generator::Google),
    ("imagen", Generator::Google),
];

/// Determines who made an image from its claims and labels.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    from_c2pa(texts)
        .or_else(|| from_xmp(texts))
        .or_else(|| from_iptc(texts))
        .or_else(|| from_exif(texts))
        .or_else(|| from_export_label(texts))
}

/// Lists what a file claims about its origin, whether or not it identifies a generator.
pub(super) fn claims(texts: &Texts) -> Vec<Claim> {
    let mut claims: Vec<Claim> = manifests(texts)
        .iter()
        .map(|manifest| Claim {
            source: if manifest.own { ClaimSource::C2pa } else { ClaimSource::C2paIngredient },
            maker: manifest.makers.first().map(|(_, name)| name.clone()),
            source_type: manifest.actions.iter().find_map(|(_, action)| source_type(action)).map(str::to_owned),
            signature: if manifest.signed { SignatureState::Unverified } else { SignatureState::Missing },
        })
        .collect();
    for (_, packet) in packets(texts) {
        let source_type = packet.get(Namespace::IptcExtension, "DigitalSourceType").map(last_segment);
        let credit = packet.get(Namespace::Photoshop, "Credit");
        if source_type.is_some() {
            claims.push(Claim {
                source: ClaimSource::Xmp,
                maker: credit.map(str::to_owned),
                source_type: source_type.map(str::to_owned),
                signature: SignatureState::Unsigned,
            });
        }
    }
    claims
}

/// One manifest of a store.
struct Manifest<'a> {
    label: &'a str,
    own: bool,
    /// Names that the claim gives its generator, each with the index of its text.
    makers: Vec<(usize, String)>,
    actions: Vec<(usize, &'a Value)>,
    ingredients: Vec<&'a Value>,
    signed: bool,
}

fn manifests(texts: &Texts) -> Vec<Manifest<'_>> {
    let mut found: Vec<Manifest<'_>> = Vec::new();
    for (index, raw) in texts.raw.iter().enumerate() {
        let (own, label, key) = match raw.slot {
            Slot::C2pa => (true, "", raw.key.as_str()),
            Slot::C2paIngredient => match raw.key.rsplit_once('/') {
                Some((label, key)) => (false, label, key),
                None => continue,
            },
            _ => continue,
        };
        let place = found.iter().position(|manifest| manifest.own == own && manifest.label == label);
        let place = place.unwrap_or_else(|| {
            found.push(Manifest {
                label,
                own,
                makers: Vec::new(),
                actions: Vec::new(),
                ingredients: Vec::new(),
                signed: false,
            });
            found.len() - 1
        });
        let Some(manifest) = found.get_mut(place) else { continue };
        if key == SIGNATURE {
            manifest.signed = true;
            continue;
        }
        let Some(value) = texts.json(index) else { continue };
        if key.starts_with("c2pa.claim") {
            manifest.makers.extend(claim_generators(value).map(|name| (index, name.to_owned())));
        } else if key.starts_with("c2pa.actions") {
            let actions = value.get("actions").and_then(Value::as_array).into_iter().flatten();
            manifest.actions.extend(actions.map(|action| (index, action)));
        } else if key.starts_with("c2pa.ingredient") {
            manifest.ingredients.push(value);
        }
    }
    found
}

fn claim_generators(claim: &Value) -> impl Iterator<Item = &str> {
    let info = claim.get("claim_generator_info");
    let listed = info.and_then(Value::as_array).into_iter().flatten().chain(info.filter(|info| info.is_object()));
    let names = listed.filter_map(|info| info.get("name")?.as_str());
    names.chain(claim.get("claim_generator").and_then(Value::as_str))
}

fn from_c2pa(texts: &Texts) -> Option<Fields> {
    let manifests = manifests(texts);
    let mut manifest = manifests.iter().find(|manifest| manifest.own)?;
    let mut delivered_by: Vec<&str> = Vec::new();
    for _ in 0..MAX_PARENTS {
        if let Some((index, made)) = manifest.actions.iter().find(|(_, action)| is_made_by_model(action)) {
            return made_fields(manifest, *index, made, &delivered_by);
        }
        delivered_by.extend(manifest.makers.iter().map(|(_, name)| name.as_str()));
        // An image was made by the maker of its ingredient only if it was delivered unchanged.
        let kind = |action: &Value| action.get("action").and_then(Value::as_str).unwrap_or_default().to_owned();
        let delivered = manifest.actions.iter().all(|(_, action)| DELIVERY.contains(&kind(action).as_str()));
        let [ingredient] = manifest.ingredients.as_slice() else { return None };
        let label = ingredient_manifest(ingredient)?;
        let parent = manifests.iter().find(|manifest| !manifest.own && manifest.label == label)?;
        // A vendor may also finish its own image, for example with a visible watermark.
        let of = |manifest: &Manifest<'_>| manifest.makers.iter().find_map(|(_, name)| maker(name));
        if !delivered && (of(manifest).is_none() || of(manifest) != of(parent)) {
            return None;
        }
        manifest = parent;
    }
    None
}

fn made_fields(manifest: &Manifest<'_>, index: usize, made: &Value, delivered_by: &[&str]) -> Option<Fields> {
    let agent = made.get("softwareAgent").and_then(agent);
    let described = made.get("description").and_then(Value::as_str);
    let by_claim = manifest.makers.iter().find_map(|(index, name)| Some((*index, maker(name)?)));
    let words = agent.iter().map(String::as_str).chain(described).chain(delivered_by.iter().copied());
    let by_agent = words.filter_map(maker).map(|maker| (index, maker)).next();
    let (claimed, generator) = by_claim.or(by_agent)?;
    let state = if manifest.signed { "signed, not verified" } else { "not signed" };
    let place = if manifest.own { "C2PA claim" } else { "C2PA claim of the only ingredient" };
    let mut fields = Fields::of(generator, at(claimed, format!("{place}, {state}")));
    fields.notes.push(match manifest.signed {
        true => "the maker comes from a C2PA claim whose signature was not verified".to_owned(),
        false => "the maker comes from a C2PA claim without a signature".to_owned(),
    });
    fields.model(at(index, "`softwareAgent` of the action that created it"), &agent.unwrap_or_default(), None);
    let created = made.get("when").and_then(Value::as_str).and_then(fields::created);
    // A time of exactly midnight is a day that was written as a time.
    fields.created_at = created.map(|Created { at, precision }| Created {
        at,
        precision: if at.millis().rem_euclid(86_400_000) == 0 { Precision::Day } else { precision },
    });
    Some(fields)
}

/// Returns the label of the manifest that an ingredient refers to.
fn ingredient_manifest(ingredient: &Value) -> Option<&str> {
    let reference = ingredient.get("activeManifest").or_else(|| ingredient.get("c2pa_manifest"))?;
    reference.get("url")?.as_str()?.rsplit('/').next()
}

/// Reads labels in XMP: Google credits itself; Midjourney gives every image an id.
fn from_xmp(texts: &Texts) -> Option<Fields> {
    packets(texts).find_map(|(index, packet)| {
        let source = packet.get(Namespace::IptcExtension, "DigitalSourceType").map(last_segment);
        let by_model = source == Some(MADE_BY_MODEL);
        let credit = packet.get(Namespace::Photoshop, "Credit").unwrap_or_default();
        let label = packet.get(Namespace::Tc260, "AIGC");
        let generator = if credit == "Made with Google AI" && source.is_none_or(|source| source == MADE_BY_MODEL) {
            Generator::Google
        } else if let Some(maker) = maker(credit).filter(|_| by_model) {
            maker
        } else if by_model && is_numbered(&packet) {
            Generator::Midjourney
        } else {
            // The producer in the label is a company's registration number or its name.
            maker(label?)?
        };
        let mut fields = Fields::of(generator, at(index, "XMP label, not signed"));
        fields.notes.push("the maker comes from an XMP label, which is not signed".to_owned());
        if let Some(date) = packet.get(Namespace::Photoshop, "DateCreated") {
            fields.created(date);
        }
        Some(fields)
    })
}

/// Returns whether a packet has an id and names no other tool, which is all that Midjourney writes besides the source
/// type. The standard's name of the id is `DigImageGUID`.
fn is_numbered(packet: &Packet) -> bool {
    let of = |name: &str| packet.get(Namespace::IptcExtension, name);
    let id = of("DigitalImageGUID").or_else(|| of("DigImageGUID"));
    let names_other =
        packet.get(Namespace::Photoshop, "Credit").is_some() || packet.get(Namespace::Xmp, "CreatorTool").is_some();
    id.is_some_and(is_uuid) && !names_other
}

fn from_iptc(texts: &Texts) -> Option<Fields> {
    let credits = |raw: &&super::RawText| raw.slot == Slot::Iptc && raw.key == "Credit";
    let index = texts.raw.iter().position(|raw| credits(&raw) && raw.text.trim() == "Made with Google AI")?;
    let mut fields = Fields::of(Generator::Google, at(index, "IPTC credit, not signed"));
    fields.notes.push("the maker comes from an IPTC credit, which is not signed".to_owned());
    Some(fields)
}

/// Reads EXIF: xAI signs the description and gives every image an id; the reference code of Black Forest Labs states
/// the vendor and the model, and optionally keeps the prompt as the description.
fn from_exif(texts: &Texts) -> Option<Fields> {
    if let (Some(artist), Some(description)) = (texts.exif("Artist"), texts.exif("ImageDescription"))
        && texts.text(description).starts_with("Signature: ")
        && is_uuid(texts.text(artist).trim())
    {
        let mut fields =
            Fields::of(Generator::XAi, at(description, "`Signature:` and an id as `Artist`, not verified"));
        fields.notes.push("the maker comes from an EXIF signature that was not verified".to_owned());
        return Some(fields);
    }
    let (make, software) = (texts.exif("Make")?, texts.exif("Software")?);
    if texts.text(make).trim() != "Black Forest Labs" || !texts.text(software).starts_with("AI generated") {
        return None;
    }
    let mut fields = Fields::of(Generator::BlackForestLabs, at(make, "`Make`, not signed"));
    if let Some(model) = texts.exif("Model") {
        fields.model(at(model, "`Model`"), texts.text(model), None);
    }
    if let Some(prompt) = texts.exif("ImageDescription") {
        fields.prompt(at(prompt, "`ImageDescription`"), texts.text(prompt));
    }
    fields.notes.push("the maker comes from EXIF, which is not signed".to_owned());
    Some(fields)
}

/// Reads the label that ByteDance's web applications export: it states the product, and that it generated the image.
fn from_export_label(texts: &Texts) -> Option<Fields> {
    let index = texts.exif("UserComment")?;
    let label = texts.json_with(index, &["aigc_info"])?;
    let text = |pointer: &str| label.pointer(pointer).and_then(Value::as_str);
    let generator =
        maker(text("/aigc_info/source_info")?).filter(|_| text("/data/exportType") == Some("generation"))?;
    let mut fields = Fields::of(generator, at(index, "`aigc_info` of an exported generation, not signed"));
    fields.notes.push("the maker comes from EXIF, which is not signed".to_owned());
    Some(fields)
}

fn packets(texts: &Texts) -> impl Iterator<Item = (usize, Packet)> {
    let packets = texts.raw.iter().enumerate().filter(|(_, raw)| raw.slot == Slot::Xmp);
    packets.map(|(index, raw)| (index, Packet::parse(&raw.text)))
}

fn is_made_by_model(action: &Value) -> bool {
    let kind = action.get("action").and_then(Value::as_str);
    source_type(action) == Some(MADE_BY_MODEL) && kind.is_none_or(|kind| kind == "c2pa.created")
}

fn source_type(action: &Value) -> Option<&str> {
    action.get("digitalSourceType").and_then(Value::as_str).map(last_segment)
}

/// Returns the last segment of a URL, which is the term of a vocabulary.
fn last_segment(address: &str) -> &str {
    address.rsplit('/').next().unwrap_or(address)
}

/// Returns the vendor that a name belongs to.
fn maker(name: &str) -> Option<Generator> {
    let name = name.to_lowercase();
    let word = |word: &str| {
        // Match whole words only, since "sora" and "bing" are parts of others.
        name.match_indices(word).any(|(start, _)| {
            let before = name.get(..start).and_then(|before| before.chars().next_back());
            let after = name.get(start + word.len()..).and_then(|after| after.chars().next());
            let ends = !word.ends_with(char::is_alphabetic) || !after.is_some_and(char::is_alphabetic);
            ends && !before.is_some_and(char::is_alphanumeric)
        })
    };
    MAKERS.iter().find(|(known, _)| word(known)).map(|(_, maker)| *maker)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Formats a software agent: a text, or a name and a version.
fn agent(agent: &Value) -> Option<String> {
    let part = |key: &str| agent.get(key).and_then(Value::as_str);
    match agent {
        Value::String(name) => Some(name.clone()),
        _ => Some(match (part("name")?, part("version")) {
            (name, Some(version)) => format!("{name} {version}"),
            (name, None) => name.to_owned(),
        }),
    }
}
