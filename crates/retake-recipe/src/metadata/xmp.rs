//! A property of an XMP packet, found by a scan: packets are small, and what is asked for is known by name.

/// The property's text: of an attribute, an element, or the first item of a list in it.
pub(super) fn property(packet: &str, name: &str) -> Option<String> {
    attribute(packet, name).or_else(|| element(packet, name))
}

fn attribute(packet: &str, name: &str) -> Option<String> {
    let start = format!("{name}=");
    packet.match_indices(&start).find_map(|(at, _)| {
        let before = packet.get(..at)?.chars().next_back()?;
        let rest = packet.get(at + start.len()..)?;
        let quote = rest.chars().next().filter(|quote| before.is_whitespace() && matches!(quote, '"' | '\''))?;
        let value = rest.get(1..)?;
        Some(unescaped(value.get(..value.find(quote)?)?))
    })
}

fn element(packet: &str, name: &str) -> Option<String> {
    let open = packet.find(&format!("<{name}>")).or_else(|| packet.find(&format!("<{name} ")))?;
    let inside = packet.get(open..)?.split_once('>')?.1;
    let inside = inside.get(..inside.find(&format!("</{name}>"))?)?;
    let item = inside.find("<rdf:li").and_then(|at| inside.get(at..)?.split_once('>'));
    let text = item.map_or(inside, |(_, item)| item.split("</rdf:li>").next().unwrap_or(item));
    Some(unescaped(text.trim()))
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        // The longest entity is a number.
        let end = behind.char_indices().take(12).find(|(_, c)| *c == ';').map(|(end, _)| end);
        let known = end.and_then(|end| {
            let (entity, after) = (behind.get(..end)?, behind.get(end + 1..)?);
            let c = match entity {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                _ => {
                    let number = entity.strip_prefix('#')?;
                    let code = match number.strip_prefix(['x', 'X']) {
                        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                        None => number.parse().ok()?,
                    };
                    char::from_u32(code)?
                }
            };
            Some((c, after))
        });
        match known {
            Some((c, after)) => {
                out.push(c);
                rest = after;
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_attributes_elements_and_items() {
        let packet = r#"<rdf:Description xmp:CreatorTool="Draw &quot;Things&quot;" a:b='1'>
            <dc:description><rdf:Alt><rdf:li xml:lang="x-default">a cat &amp; dog&#xA;&#49; &odd;</rdf:li></rdf:Alt></dc:description>
            <x:y> plain </x:y></rdf:Description>"#;
        assert_eq!(property(packet, "xmp:CreatorTool").unwrap(), "Draw \"Things\"");
        assert_eq!(property(packet, "dc:description").unwrap(), "a cat & dog\n1 &odd;");
        assert_eq!(property(packet, "x:y").unwrap(), "plain");
        assert_eq!(property(packet, "a:b").unwrap(), "1");
        assert_eq!(property(packet, "z:z"), None);
    }
}
