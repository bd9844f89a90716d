//! XMP packets: properties by namespace and name, independent of the writer's prefixes.

use std::borrow::Cow;

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{PrefixDeclaration, QName};
use quick_xml::reader::Reader;

/// The maximum number of properties taken from one packet.
const MAX_PROPERTIES: usize = 500;
/// The maximum nesting depth of elements.
const MAX_DEPTH: usize = 64;

/// A namespace whose properties are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespace {
    DublinCore,
    Xmp,
    Exif,
    Photoshop,
    IptcExtension,
    /// The Chinese labelling standard for generated content.
    Tc260,
}

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
/// Namespaces by URI, with the prefix that is assumed if a writer did not declare it.
const KNOWN: [(Namespace, &str, &str); 6] = [
    (Namespace::DublinCore, "http://purl.org/dc/elements/1.1/", "dc"),
    (Namespace::Xmp, "http://ns.adobe.com/xap/1.0/", "xmp"),
    (Namespace::Exif, "http://ns.adobe.com/exif/1.0/", "exif"),
    (Namespace::Photoshop, "http://ns.adobe.com/photoshop/1.0/", "photoshop"),
    (Namespace::IptcExtension, "http://iptc.org/std/Iptc4xmpExt/2008-02-29/", "Iptc4xmpExt"),
    (Namespace::Tc260, "http://www.tc260.org.cn/ns/AIGC/1.0/", "TC260"),
];

/// The properties of a packet.
#[derive(Debug, Default)]
pub(super) struct Packet {
    properties: Vec<(Namespace, String, String)>,
}

/// An open element.
struct OpenElement {
    /// The property that it is or belongs to.
    property: Option<(Namespace, String)>,
    text: String,
    /// The prefixes it declares, and their URIs.
    declared: Vec<(String, String)>,
}

impl Packet {
    /// Parses a packet. A malformed one yields the properties up to the error.
    pub(super) fn parse(packet: &str) -> Packet {
        let mut found = Packet::default();
        let mut reader = Reader::from_str(packet.trim_start_matches(['\u{feff}', '\0']));
        reader.config_mut().check_end_names = false;
        let mut open: Vec<OpenElement> = Vec::new();
        while found.properties.len() < MAX_PROPERTIES {
            match reader.read_event() {
                Ok(Event::Start(element)) => {
                    if open.len() >= MAX_DEPTH {
                        break;
                    }
                    let element = found.element(&element, &open);
                    open.push(element);
                }
                Ok(Event::Empty(element)) => {
                    found.element(&element, &open);
                }
                Ok(Event::Text(text)) => {
                    if let (Some(open), Ok(text)) = (open.last_mut(), text.decode()) {
                        open.text.push_str(&text);
                    }
                }
                Ok(Event::CData(text)) => {
                    if let (Some(open), Ok(text)) = (open.last_mut(), text.decode()) {
                        open.text.push_str(&text);
                    }
                }
                Ok(Event::GeneralRef(entity)) => {
                    if let Some(open) = open.last_mut() {
                        match (entity.resolve_char_ref(), entity.decode()) {
                            (Ok(Some(c)), _) => open.text.push(c),
                            (_, Ok(name)) => match resolve_predefined_entity(&name) {
                                Some(text) => open.text.push_str(text),
                                None => open.text.push_str(&format!("&{name};")),
                            },
                            _ => {}
                        }
                    }
                }
                Ok(Event::End(_)) => {
                    if let Some(OpenElement { property: Some((namespace, name)), text, .. }) = open.pop() {
                        found.add(namespace, name, text.trim());
                    }
                }
                Ok(Event::Eof) | Err(_) => break,
                Ok(_) => {}
            }
        }
        found
    }

    /// Returns the first value of a property.
    pub(super) fn get(&self, namespace: Namespace, name: &str) -> Option<&str> {
        let mut named = self.properties.iter().filter(|(of, found, _)| *of == namespace && found == name);
        named.next().map(|(_, _, value)| value.as_str())
    }

    fn add(&mut self, namespace: Namespace, name: String, value: &str) {
        if !value.is_empty() && self.properties.len() < MAX_PROPERTIES {
            self.properties.push((namespace, name, value.to_owned()));
        }
    }

    /// Reads the attributes of an element, which are properties in RDF's short form, and returns the element.
    fn element(&mut self, element: &BytesStart<'_>, open: &[OpenElement]) -> OpenElement {
        let attributes: Vec<(String, String)> = element
            .attributes()
            .with_checks(false)
            .filter_map(Result::ok)
            .map(|attribute| {
                let key = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
                let value = attribute.normalized_value(XmlVersion::Implicit1_0).map(Cow::into_owned);
                let raw = || String::from_utf8_lossy(&attribute.value).into_owned();
                (key, value.unwrap_or_else(|_| raw()))
            })
            .collect();
        let declared = attributes
            .iter()
            .filter_map(|(key, value)| match QName(key.as_bytes()).as_namespace_binding()? {
                PrefixDeclaration::Named(prefix) => Some((String::from_utf8_lossy(prefix).into_owned(), value.clone())),
                PrefixDeclaration::Default => None,
            })
            .collect();
        let name = String::from_utf8_lossy(element.name().as_ref()).into_owned();
        let mut opened = OpenElement { property: None, text: String::new(), declared };
        let own = resolve(&name, open, &opened);
        // A list item belongs to the enclosing property.
        opened.property = match own {
            Resolved::Known(namespace, name) => Some((namespace, name)),
            Resolved::Rdf => open.last().and_then(|around| around.property.clone()),
            Resolved::Other => None,
        };
        for (key, value) in &attributes {
            match resolve(key, open, &opened) {
                Resolved::Known(namespace, name) => self.add(namespace, name, value.trim()),
                Resolved::Rdf if key.ends_with(":resource") => {
                    if let Some((namespace, name)) = opened.property.clone() {
                        self.add(namespace, name, value.trim());
                    }
                }
                _ => {}
            }
        }
        opened
    }
}

enum Resolved {
    Known(Namespace, String),
    Rdf,
    Other,
}

/// Resolves a prefixed name by the declarations in scope.
fn resolve(name: &str, open: &[OpenElement], own: &OpenElement) -> Resolved {
    let Some((prefix, local)) = name.split_once(':') else { return Resolved::Other };
    let scopes = std::iter::once(own).chain(open.iter().rev());
    let mut declared = scopes.flat_map(|scope| &scope.declared).filter(|(named, _)| named == prefix);
    match declared.next() {
        Some((_, address)) if address == RDF => Resolved::Rdf,
        Some((_, address)) => known(|(_, known, _)| known == address, local),
        None if prefix == "rdf" => Resolved::Rdf,
        None => known(|(_, _, usual)| *usual == prefix, local),
    }
}

fn known(is: impl Fn(&&(Namespace, &'static str, &'static str)) -> bool, local: &str) -> Resolved {
    KNOWN
        .iter()
        .find(|it| is(it))
        .map_or(Resolved::Other, |(namespace, ..)| Resolved::Known(*namespace, local.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_attributes_elements_and_items() {
        let packet = Packet::parse(
            r#"<rdf:Description xmp:CreatorTool="Draw &quot;Things&quot;" photoshop:Credit='1'>
            <dc:description><rdf:Alt><rdf:li xml:lang="x-default">a cat &amp; dog&#xA;&#49; &odd;</rdf:li></rdf:Alt></dc:description>
            <exif:UserComment> plain </exif:UserComment></rdf:Description>"#,
        );
        assert_eq!(packet.get(Namespace::Xmp, "CreatorTool"), Some("Draw \"Things\""));
        assert_eq!(packet.get(Namespace::DublinCore, "description"), Some("a cat & dog\n1 &odd;"));
        assert_eq!(packet.get(Namespace::Exif, "UserComment"), Some("plain"));
        assert_eq!(packet.get(Namespace::Photoshop, "Credit"), Some("1"));
        assert_eq!(packet.get(Namespace::Exif, "other"), None);
    }

    #[test]
    fn prefixes_do_not_matter() {
        let packet = Packet::parse(
            r#"<a:RDF xmlns:a="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><a:Description xmlns:b="http://purl.org/dc/elements/1.1/" xmlns:c="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" xmlns:xmp="http://example.org/other/" xmp:CreatorTool="other">
            <b:description><a:Alt><a:li>a cat</a:li></a:Alt></b:description><c:DigitalSourceType a:resource="x/y"/></a:Description></a:RDF>"#,
        );
        assert_eq!(packet.get(Namespace::DublinCore, "description"), Some("a cat"));
        assert_eq!(packet.get(Namespace::IptcExtension, "DigitalSourceType"), Some("x/y"));
        assert_eq!(packet.get(Namespace::Xmp, "CreatorTool"), None, "the prefix stands for another namespace");
    }

    #[test]
    fn a_malformed_packet_gives_what_came_before() {
        let packet = Packet::parse(r#"<x xmp:CreatorTool="a"><dc:description>b</dc:description><exif:UserComment"#);
        assert_eq!(packet.get(Namespace::Xmp, "CreatorTool"), Some("a"));
        assert_eq!(packet.get(Namespace::DublinCore, "description"), Some("b"));
        assert!(Packet::parse(&"<a>".repeat(100_000)).properties.is_empty());
    }
}
