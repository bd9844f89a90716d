//! Vendors that sign or label their images: in the file's own claim, in that of its ingredient, in XMP, IPTC and EXIF.

use retake_recipe::metadata::{ClaimSource, Reading, SignatureState, read_bytes};
use serde_json::{Value, json};

use crate::build::{Order, cbor, chunk, exif, exif_segment, itxt, jpeg, manifests, png, text, ztxt};
use crate::tools::line;

const MADE: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";
const COMPOSITE: &str = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia";

/// Returns the assertions of a manifest: its actions, its claim, whether it is signed, and the manifest of its
/// ingredient.
fn assertions(name: &str, actions: Value, signed: bool, parent: Option<(&str, &str)>) -> Vec<(&'static str, Vec<u8>)> {
    let mut found = vec![
        ("c2pa.actions.v2", cbor(&json!({"actions": actions}))),
        ("c2pa.claim.v2", cbor(&json!({"claim_generator_info": {"name": name}}))),
    ];
    if let Some((relationship, label)) = parent {
        let reference =
            json!({"relationship": relationship, "activeManifest": {"url": format!("self#jumbf=/c2pa/{label}")}});
        found.push(("c2pa.ingredient.v3", cbor(&reference)));
    }
    if signed {
        found.push(("c2pa.signature", vec![0xf6]));
    }
    found
}

fn of(store: &[u8]) -> Reading {
    read_bytes(&png(&[chunk(b"caBX", store)]))
}

#[test]
fn every_maker_by_its_name() {
    for (claim, agent, expected) in [
        ("API", "GPT-4o", "OpenAI | model=GPT-4o"),
        ("ChatGPT", "GPT-4o", "OpenAI | model=GPT-4o"),
        ("Sora", "Sora", "OpenAI | model=Sora"),
        ("Adobe_Firefly", "Adobe Firefly", "Adobe Firefly | model=Adobe Firefly"),
        ("Microsoft_Responsible_AI/1.0", "Bing Image Creator", "Microsoft Designer | model=Bing Image Creator"),
        ("Bing Image Creator", "DALL-E", "Bing Image Creator | model=DALL-E"),
        ("Microsoft Designer", "x", "Microsoft Designer | model=x"),
        ("Amazon Titan Image Generator", "x", "Amazon | model=x"),
        ("xAI", "Grok", "xAI Grok | model=Grok"),
        ("Black Forest Labs API", "FLUX", "Black Forest Labs | model=FLUX"),
        ("BytePlus", "Seedream 4.0", "ByteDance | model=Seedream 4.0"),
        ("Samsung Galaxy", "x", "Samsung | model=x"),
        ("Google C2PA Core Generator Library", "x", "Google | model=x"),
        // A claim of an unknown vendor is listed, but no generator is recognised.
        ("Example Studio", "x", "none"),
        ("Sorariver Cabing", "x", "none"),
    ] {
        let made = json!([{"action": "c2pa.created", "softwareAgent": agent, "digitalSourceType": MADE}]);
        let reading = of(&manifests(&[("urn:1", assertions(claim, made, true, None))]));
        assert_eq!(line(&reading), expected, "{claim}");
        assert_eq!(reading.claims[0].maker.as_deref(), Some(claim));
        assert_eq!(reading.claims[0].source_type.as_deref(), Some("trainedAlgorithmicMedia"));
        assert_eq!(reading.claims[0].signature, SignatureState::Unverified);
    }
}

#[test]
fn the_maker_of_what_was_only_delivered() {
    let made = json!([{"action": "c2pa.created", "softwareAgent": {"name": "GPT-4o"}, "digitalSourceType": MADE}]);
    let first = || ("urn:1", assertions("API", made.clone(), true, None));
    for relationship in ["parentOf", "componentOf"] {
        let opened = json!([{"action": "c2pa.opened"}, {"action": "c2pa.converted"}]);
        let reading =
            of(&manifests(&[first(), ("urn:2", assertions("ChatGPT", opened, true, Some((relationship, "urn:1"))))]));
        assert_eq!(line(&reading), "OpenAI | model=GPT-4o");
        assert_eq!(
            reading.claims.iter().map(|claim| claim.source).collect::<Vec<_>>(),
            [ClaimSource::C2pa, ClaimSource::C2paIngredient]
        );
        assert!(
            reading.sources.iter().any(|source| source.rule.contains("of the only ingredient, signed, not verified"))
        );
    }
    // Edited by another tool: the maker of a part is not the maker of the image.
    let edited =
        json!([{"action": "c2pa.opened"}, {"action": "c2pa.color_adjustments", "digitalSourceType": COMPOSITE}]);
    let reading =
        of(&manifests(&[first(), ("urn:2", assertions("Adobe Photoshop", edited, true, Some(("parentOf", "urn:1"))))]));
    assert_eq!((line(&reading).as_str(), reading.claims.len()), ("none", 2));
    // Finished by the same maker.
    let google = json!([{"action": "c2pa.created", "description": "Created by Google Generative AI.", "digitalSourceType": MADE}]);
    let marked = json!([{"action": "c2pa.edited", "digitalSourceType": "http://cv.iptc.org/newscodes/digitalsourcetype/composite"}]);
    let reading = of(&manifests(&[
        ("urn:1", assertions("Google C2PA Core Generator Library", google, true, None)),
        ("urn:2", assertions("Google C2PA Core Generator Library", marked, true, Some(("parentOf", "urn:1")))),
    ]));
    assert_eq!(line(&reading), "Google");
    // A manifest that refers to itself as its parent terminates.
    let own = json!([{"action": "c2pa.opened"}]);
    let looping = manifests(&[
        ("urn:1", assertions("API", own.clone(), true, Some(("parentOf", "urn:1")))),
        ("urn:2", assertions("API", own, true, Some(("parentOf", "urn:1")))),
    ]);
    assert_eq!(line(&of(&looping)), "none");
}

#[test]
fn labels_that_are_not_signed() {
    let source = |properties: &str| {
        format!(
            r#"<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" xmlns:q="http://ns.adobe.com/photoshop/1.0/"><r:Description {properties}/></r:RDF>"#
        )
    };
    let packet = |properties: &str| read_bytes(&png(&[itxt("XML:com.adobe.xmp", &source(properties), false)]));
    let google = packet(&format!(r#"q:Credit="Made with Google AI" e:DigitalSourceType="{MADE}""#));
    assert_eq!(line(&google), "Google");
    assert!(google.notes.iter().any(|note| note.contains("not signed")), "{:?}", google.notes);
    let journey = format!(r#"e:DigitalImageGUID="01234567-89ab-cdef-0123-456789abcdef" e:DigitalSourceType="{MADE}""#);
    assert_eq!(line(&packet(&journey)), "Midjourney");
    // Tools that save a copy may put the packet into a chunk of another kind.
    for chunk in [text("XML:com.adobe.xmp", source(&journey)), ztxt("XML:com.adobe.xmp", &source(&journey))] {
        assert_eq!(line(&read_bytes(&png(&[chunk]))), "Midjourney");
    }
    // The id under the name that the standard gives it, as Midjourney itself writes it.
    let standard = journey.replace("DigitalImageGUID", "DigImageGUID");
    assert_eq!(line(&packet(&standard)), "Midjourney");
    // With the name of another tool or a credit, or an id of another kind, it is only a label.
    for other in [
        format!(r#"{standard} q:Credit="A. Studio""#),
        format!(r#"{standard} xmlns:t="http://ns.adobe.com/xap/1.0/" t:CreatorTool="Some Editor""#),
        standard.replace("01234567-89ab-cdef-0123-456789abcdef", "17"),
    ] {
        assert_eq!(line(&packet(&other)), "none", "{other}");
    }
    // A label without a vendor is a claim, but not a generator.
    let labelled = packet(&format!(r#"e:DigitalSourceType="{MADE}""#));
    assert_eq!((line(&labelled).as_str(), labelled.claims.len()), ("none", 1));
    let photo = packet(
        r#"q:Credit="A. Photographer" e:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/digitalCapture""#,
    );
    assert_eq!((line(&photo).as_str(), photo.claims[0].source_type.as_deref()), ("none", Some("digitalCapture")));

    let credit = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x18\x1c\x02\x6e\0\x13Made with Google AI";
    assert_eq!(line(&read_bytes(&jpeg(&[(0xed, credit.to_vec())]))), "Google");

    let tags = |make: &[(u16, &str)]| {
        let tags: Vec<_> = make.iter().map(|(tag, text)| (*tag, 2, [text.as_bytes(), b"\0"].concat())).collect();
        read_bytes(&jpeg(&[exif_segment(&exif(Order::Big, &tags, &[]))]))
    };
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    assert_eq!(line(&tags(&[(0x010e, "Signature: c2lnbmVk"), (0x013b, id)])), "xAI Grok");
    assert_eq!(line(&tags(&[(0x010e, "Signature: mine"), (0x013b, "Ada")])), "none");
    assert_eq!(
        line(&tags(&[
            (0x010e, "a cat"),
            (0x010f, "Black Forest Labs"),
            (0x0110, "flux-dev"),
            (0x0131, "AI generated;txt2img;flux")
        ])),
        "Black Forest Labs | prompt=a cat | size=16x16 | model=flux-dev"
    );
}

#[test]
fn the_label_of_an_exported_generation() {
    let of = |export: &str, product: &str| {
        let label = json!({"aigc_info": {"aigc_label_type": 0, "source_info": product}, "data": {"product": product, "exportType": export}});
        let comment = [b"ASCII\0\0\0".as_slice(), label.to_string().as_bytes()].concat();
        line(&read_bytes(&jpeg(&[exif_segment(&exif(Order::Big, &[], &[(0x9286, 7, comment)]))])))
    };
    assert_eq!(of("generation", "dreamina"), "ByteDance");
    assert_eq!(of("edit", "dreamina"), "none");
    assert_eq!(of("generation", "an editor"), "none");
}
