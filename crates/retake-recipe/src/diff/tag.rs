//! Parses a prompt into tags with weights, in the notations of common generators.
//!
//! | written | means |
//! |---|---|
//! | `a, b` and line breaks | two tags |
//! | `(a:1.2)` `(a)` `((a))` `[a]` | A1111, ComfyUI, Forge: 1.2, 1.1, 1.21, 1/1.1 |
//! | `{a}` `1.2::a, b::` | NovelAI: 1.05, and 1.2 each |
//! | `(a, b:1.2)` | 1.2 each, as the generator reads it |
//! | `<lora:a:0.8>` | a separate tag wherever it occurs, weight 0.8 |
//! | `BREAK` `AND` | a separate tag |
//! | `[a:b:0.5]` `[a\|b]` `{a\|b}` `a (b:1.2) c` | one tag, verbatim: these mean more than a weight |
//! | `\(a\)` and unmatched brackets | text |
//!
//! Nothing here recurses, and every byte is visited at most a few times, since a prompt may be 256 KB of brackets.

use std::collections::HashMap;

/// A tag of a prompt, without the notation of its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    /// Its text, with runs of spaces collapsed.
    pub text: String,
    /// Its weight, rounded to four digits; 1 by default.
    pub weight: f64,
}

/// Returns the tags of a prompt, in order.
pub fn tags(prompt: &str) -> Vec<Tag> {
    let mut reader = TagReader {
        text: prompt,
        bytes: prompt.as_bytes(),
        brackets: brackets(prompt.as_bytes()),
        frames: Vec::new(),
        start: None,
        end: 0,
        tags: Vec::new(),
    };
    let mut at = 0;
    while at < prompt.len() {
        at = reader.step(at);
    }
    reader.finish();
    reader.tags
}

/// A pair of brackets.
#[derive(Clone, Copy)]
struct Bracket {
    /// Where it is closed.
    close: usize,
    /// Whether it holds alternatives, `a|b`, not counting those in brackets inside it.
    alternatives: bool,
}

/// A range of the prompt whose tags share a weight.
struct Frame {
    /// The offset after the last byte of its content.
    end: usize,
    /// The offset at which reading continues after it.
    resume: usize,
    /// The weight of everything inside, including outer frames.
    weight: f64,
    /// Whether it has the form `1.2::a::`, which ends at the next `::`.
    colons: bool,
}

struct TagReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    brackets: HashMap<usize, Bracket>,
    frames: Vec<Frame>,
    /// The offset at which the current tag begins.
    start: Option<usize>,
    /// The offset after its last byte that is not a space.
    end: usize,
    tags: Vec<Tag>,
}

/// The weight of a pair of parentheses.
const ROUND: f64 = 1.1;
const CURLY: f64 = 1.05;
/// The maximum weight: larger ones have no further effect, and a thousand brackets would overflow to infinity.
const MAX_WEIGHT: f64 = 1e6;
/// The maximum number of characters of a weight.
const MAX_DIGITS: usize = 16;

impl TagReader<'_> {
    /// Parses the input at `at`, and returns the offset at which parsing continues.
    fn step(&mut self, at: usize) -> usize {
        if let Some(frame) = self.frames.last()
            && at >= frame.end
        {
            let resume = frame.resume;
            self.finish();
            self.frames.pop();
            return resume;
        }
        let Some(byte) = self.byte(at) else { return at + 1 };
        match byte {
            b',' | b'\n' | b'\r' => {
                self.finish();
                at + 1
            }
            byte if byte.is_ascii_whitespace() => at + 1,
            b'\\' => self.take(at, at + 2),
            b'(' | b'[' | b'{' | b'<' => match self.brackets.get(&at).copied() {
                Some(bracket) => self.bracket(at, byte, bracket),
                None => self.take(at, at + 1),
            },
            b':' if self.byte(at + 1) == Some(b':') && self.frames.last().is_some_and(|frame| frame.colons) => {
                self.finish();
                self.frames.pop();
                at + 2
            }
            b'A' | b'B' => match self.keyword(at) {
                Some(keyword) => {
                    self.finish();
                    self.tags.push(Tag { text: keyword.to_owned(), weight: 1.0 });
                    at + keyword.len()
                }
                None => self.take(at, at + 1),
            },
            b'0'..=b'9' | b'-' | b'+' | b'.' if self.start.is_none() => match self.colons_weight(at) {
                Some((weight, content)) => {
                    // An inner weight replaces the outer one.
                    if self.frames.last().is_some_and(|frame| frame.colons) {
                        self.frames.pop();
                    }
                    let end = self.enclosing_end();
                    self.frames.push(Frame { end, resume: end, weight: self.weight() * weight, colons: true });
                    content
                }
                None => self.take(at, at + 1),
            },
            _ => self.take(at, at + 1),
        }
    }

    /// Parses a matched bracket.
    fn bracket(&mut self, at: usize, byte: u8, bracket: Bracket) -> usize {
        let after = bracket.close + 1;
        if byte == b'<' {
            let Some((text, weight)) = self.text.get(at + 1..bracket.close).and_then(network) else {
                return self.take(at, after);
            };
            self.finish();
            self.tags.push(Tag { text, weight: rounded(weight) });
            return after;
        }
        let stated = self.weight_before(at, bracket.close);
        let more_than_a_weight = (byte != b'(' && bracket.alternatives) || (byte == b'[' && stated.is_some());
        if self.start.is_some() || more_than_a_weight || !self.ends_a_tag(after) {
            return self.take(at, after);
        }
        let (weight, end) = match (byte, stated) {
            (b'(', Some((weight, colon))) => (weight, colon),
            (b'(', None) => (ROUND, bracket.close),
            (b'[', _) => (1.0 / ROUND, bracket.close),
            (_, _) => (CURLY, bracket.close),
        };
        let weight = (self.weight() * weight).clamp(-MAX_WEIGHT, MAX_WEIGHT);
        self.frames.push(Frame { end, resume: after, weight, colons: false });
        at + 1
    }

    /// Adds `from..to` to the current tag.
    fn take(&mut self, from: usize, to: usize) -> usize {
        self.start.get_or_insert(from);
        self.end = to;
        to
    }

    /// Ends the current tag.
    fn finish(&mut self) {
        let Some(start) = self.start.take() else { return };
        // A backslash at the end of a frame would escape a byte outside of it.
        let end = self.end.min(self.enclosing_end());
        let text = self.text.get(start..end).or_else(|| self.text.get(start..self.end)).unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.is_empty() {
            self.tags.push(Tag { text, weight: rounded(self.weight()) });
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// Returns the weight at the current position.
    fn weight(&self) -> f64 {
        self.frames.last().map_or(1.0, |frame| frame.weight)
    }

    /// Returns the offset at which the innermost frame ends.
    fn enclosing_end(&self) -> usize {
        self.frames.last().map_or(self.bytes.len(), |frame| frame.end)
    }

    /// Returns whether a tag ends here: after `(a)` in `(a), b`, but not in `(a) b`.
    fn ends_a_tag(&self, after: usize) -> bool {
        let space = |byte: &u8| *byte == b' ' || *byte == b'\t';
        let spaces = self.bytes.get(after..).unwrap_or_default().iter().take_while(|byte| space(byte)).count();
        let next = after + spaces;
        let in_colons = self.frames.last().is_some_and(|frame| frame.colons);
        next >= self.enclosing_end()
            || match self.byte(next) {
                None | Some(b',' | b'\n' | b'\r') => true,
                Some(b'(' | b'[' | b'{' | b'<') => self.brackets.contains_key(&next),
                Some(b':') => in_colons && self.byte(next + 1) == Some(b':'),
                Some(_) => self.keyword(next).is_some(),
            }
    }

    /// Returns `BREAK` or `AND` if it occurs here as a separate word.
    fn keyword(&self, at: usize) -> Option<&'static str> {
        let alone =
            |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_whitespace() || b",()[]{}<>:".contains(&byte));
        let before = at.checked_sub(1).and_then(|before| self.byte(before));
        let keyword = |name: &&str| self.bytes.get(at..).is_some_and(|rest| rest.starts_with(name.as_bytes()));
        let name = ["BREAK", "AND"].into_iter().find(keyword)?;
        (alone(before) && alone(self.byte(at + name.len()))).then_some(name)
    }

    /// Returns the weight in `1.2::a::`, and the offset of its content.
    fn colons_weight(&self, at: usize) -> Option<(f64, usize)> {
        let rest = self.bytes.get(at..)?;
        let digits = rest.iter().take(MAX_DIGITS).take_while(|byte| is_numeric(byte)).count();
        let colons = at + digits;
        if self.byte(colons) != Some(b':') || self.byte(colons + 1) != Some(b':') {
            return None;
        }
        Some((number(self.text.get(at..colons)?)?, colons + 2))
    }

    /// Returns the weight in `(a:1.2)`, and the offset of its colon.
    fn weight_before(&self, open: usize, close: usize) -> Option<(f64, usize)> {
        let inside = self.bytes.get(open + 1..close)?;
        let written =
            inside.iter().rev().take(MAX_DIGITS).take_while(|byte| is_numeric(byte) || **byte == b' ').count();
        let colon = close.checked_sub(written + 1).filter(|colon| *colon > open)?;
        if self.byte(colon) != Some(b':') {
            return None;
        }
        Some((number(self.text.get(colon + 1..close)?.trim())?, colon))
    }
}

/// Returns the matched brackets, by the offset at which they open.
fn brackets(bytes: &[u8]) -> HashMap<usize, Bracket> {
    const CLOSING: &[u8; 4] = b")]}>";
    struct OpenBracket {
        kind: usize,
        at: usize,
        alternatives: bool,
    }
    let mut found = HashMap::new();
    let mut open: Vec<OpenBracket> = Vec::new();
    let mut waiting = [0_usize; 4];
    let push = |open: &mut Vec<OpenBracket>, waiting: &mut [usize; 4], kind: usize, at: usize| {
        open.push(OpenBracket { kind, at, alternatives: false });
        if let Some(count) = waiting.get_mut(kind) {
            *count += 1;
        }
    };
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match byte {
            b'\\' => escaped = true,
            b'(' => push(&mut open, &mut waiting, 0, at),
            b'[' => push(&mut open, &mut waiting, 1, at),
            b'{' => push(&mut open, &mut waiting, 2, at),
            // Not `<3` or a less-than sign.
            b'<' if bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic) => push(&mut open, &mut waiting, 3, at),
            b'|' => {
                if let Some(innermost) = open.last_mut() {
                    innermost.alternatives = true;
                }
            }
            byte => {
                let Some(kind) = CLOSING.iter().position(|closing| closing == byte) else { continue };
                if waiting.get(kind).is_none_or(|count| *count == 0) {
                    continue;
                }
                // Unmatched brackets inside are text.
                while let Some(innermost) = open.pop() {
                    if let Some(count) = waiting.get_mut(innermost.kind) {
                        *count -= 1;
                    }
                    if innermost.kind == kind {
                        found.insert(innermost.at, Bracket { close: at, alternatives: innermost.alternatives });
                        break;
                    }
                }
            }
        }
    }
    found
}

/// Parses the tag of an additional network: `lora:add_detail:0.8`.
fn network(inside: &str) -> Option<(String, f64)> {
    let mut parts = inside.splitn(4, ':');
    let kind = parts.next()?.to_ascii_lowercase();
    if !["lora", "lyco", "hypernet"].contains(&kind.as_str()) {
        return None;
    }
    let name = parts.next()?.trim();
    let weight = match parts.next().map(str::trim) {
        None | Some("") => 1.0,
        Some(weight) => number(weight)?,
    };
    // Block weights and the like are not the weight of the whole, so they belong to the name.
    let rest = parts.next().map(|rest| format!(" {}", rest.trim())).unwrap_or_default();
    Some((format!("<{kind}:{name}>{rest}"), weight))
}

fn is_numeric(byte: &u8) -> bool {
    byte.is_ascii_digit() || b"+-.".contains(byte)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(|number| number.clamp(-MAX_WEIGHT, MAX_WEIGHT))
}

fn rounded(weight: f64) -> f64 {
    // Adding 0 turns -0 into 0.
    (weight * 1e4).round() / 1e4 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prompt: &str, expected: &[(&str, f64)]) {
        let found = tags(prompt);
        let found: Vec<(&str, f64)> = found.iter().map(|tag| (tag.text.as_str(), tag.weight)).collect();
        assert_eq!(found, expected, "{prompt:?}");
    }

    #[test]
    fn plain_tags() {
        check("", &[]);
        check(" , ,\n,", &[]);
        check("a cat", &[("a cat", 1.0)]);
        check("a,b , c\nd\r\n e", &[("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 1.0), ("e", 1.0)]);
        check("two   spaces\tand a tab", &[("two spaces and a tab", 1.0)]);
        check("猫, зима", &[("猫", 1.0), ("зима", 1.0)]);
    }

    #[test]
    fn weights_in_every_notation() {
        check("(red dress:1.2), solo", &[("red dress", 1.2), ("solo", 1.0)]);
        check("(a), ((a)), [a], [[a]]", &[("a", 1.1), ("a", 1.21), ("a", 0.9091), ("a", 0.8264)]);
        check("{a}, {{a}}", &[("a", 1.05), ("a", 1.1025)]);
        check("1.2::a, b::, c", &[("a", 1.2), ("b", 1.2), ("c", 1.0)]);
        check("-0.8::feet::", &[("feet", -0.8)]);
        check("1.5::a, 0.5::b, c", &[("a", 1.5), ("b", 0.5), ("c", 0.5)]);
        check("1.2::a:: b", &[("a", 1.2), ("b", 1.0)]);
        check("(a, b:1.2)", &[("a", 1.2), ("b", 1.2)]);
        check("((a:1.2):1.5)", &[("a", 1.8)]);
        check("((a), b:2)", &[("a", 2.2), ("b", 2.0)]);
        check("{1.2::a}, b", &[("a", 1.26), ("b", 1.0)]);
        check("(a: 1.2 )", &[("a", 1.2)]);
        check("(a:.5), (b:1)", &[("a", 0.5), ("b", 1.0)]);
        check("(a)(b) (c:1.3)", &[("a", 1.1), ("b", 1.1), ("c", 1.3)]);
        check("(a:0)", &[("a", 0.0)]);
    }

    #[test]
    fn networks_stand_alone() {
        check("a cat <lora:add_detail:0.8> b", &[("a cat", 1.0), ("<lora:add_detail>", 0.8), ("b", 1.0)]);
        check("<lora:a><LoRA:b:1><lyco:c:-0.5>", &[("<lora:a>", 1.0), ("<lora:b>", 1.0), ("<lyco:c>", -0.5)]);
        check("<lora:a:0.8:0.6>", &[("<lora:a> 0.6", 0.8)]);
        check("(<lora:a:0.8>, b:1.2)", &[("<lora:a>", 0.8), ("b", 1.2)]);
        check("<my-style, x>, b", &[("<my-style, x>", 1.0), ("b", 1.0)]);
        check("<lora:a:much>", &[("<lora:a:much>", 1.0)]);
    }

    #[test]
    fn keywords_stand_alone() {
        check("a BREAK b, AND c", &[("a", 1.0), ("BREAK", 1.0), ("b", 1.0), ("AND", 1.0), ("c", 1.0)]);
        check("(a) AND (b:1.2)", &[("a", 1.1), ("AND", 1.0), ("b", 1.2)]);
        check("BREAKFAST, BAND, ANDES, A", &[("BREAKFAST", 1.0), ("BAND", 1.0), ("ANDES", 1.0), ("A", 1.0)]);
    }

    #[test]
    fn notations_beyond_a_weight_stay_as_they_are() {
        for whole in [
            "[cat:dog:0.5]",
            "[cat:10]",
            "[cat|dog]",
            "{cat|dog, wolf}",
            "photo of a (red:1.3) car",
            "(red:1.3) car",
            "photo (a, b)",
            "fate \\(series\\)",
            "a :( sad cat",
            "I <3 cats (and dogs",
            "12:30",
            "3 cats",
            "-",
            "a::b",
        ] {
            check(whole, &[(whole, 1.0)]);
        }
        check("smile :), red", &[("smile :)", 1.0), ("red", 1.0)]);
        check("(unclosed, b", &[("(unclosed", 1.0), ("b", 1.0)]);
        check("(fate \\(series\\):1.2)", &[("fate \\(series\\)", 1.2)]);
        check("a [b (c] d)", &[("a [b (c] d)", 1.0)]);
        check("\\", &[("\\", 1.0)]);
        check("(a\\:1.2)", &[("a\\", 1.2)]);
    }

    #[test]
    fn a_quarter_megabyte_of_brackets_is_read_at_once() {
        let half = 128 * 1024;
        for prompt in [
            "(".repeat(2 * half),
            format!("{}{}", "(".repeat(half), ")".repeat(half)),
            format!("{}{}", "[".repeat(half), ")".repeat(half)),
            "([{<a".repeat(half / 2),
            "(a) ".repeat(half / 2),
            "1::".repeat(half / 2),
            "a,".repeat(half),
            "\\(".repeat(half),
        ] {
            assert!(tags(&prompt).iter().all(|tag| tag.weight.is_finite()));
        }
        assert_eq!(
            tags(&format!("{}a{}", "(".repeat(half), ")".repeat(half))),
            [Tag { text: "a".into(), weight: 1e6 }]
        );
    }
}
