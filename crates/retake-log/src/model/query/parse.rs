//! The query parser. For any input, it returns a query or an error that points at a character, in bounded time.

use crate::model::iteration::OutcomeStatus;
use crate::model::tokenizer::{is_part, words};
use crate::model::{SessionId, Timestamp};

use super::facet::{FACETS, Kind, Side, digits, example, facet_names, name_condition, number, rating};
use super::time::{self, span};
use super::{Condition, Field, MatchKind, ParseQueryError, Part, Query};

/// The maximum length of a query in bytes.
pub const MAX_QUERY_BYTES: usize = 4096;
/// The maximum number of conditions in a query.
pub const MAX_CONDITIONS: usize = 128;
/// The maximum nesting depth of parentheses.
pub const MAX_DEPTH: usize = 32;

impl Query {
    /// Parses a query; `yesterday` and `7d` are relative to `now`.
    pub fn parse(text: &str, now: Timestamp) -> Result<Query, ParseQueryError> {
        if text.len() > MAX_QUERY_BYTES {
            let problem = format!("the query is {} bytes long: the limit is {MAX_QUERY_BYTES}", text.len());
            let hint = "search for a few distinctive words".to_owned();
            return Err(ParseQueryError { at: text.chars().take(MAX_QUERY_BYTES).count(), problem, hint });
        }
        let mut parser = Parser { text: text.chars().collect(), at: 0, depth: 0, conditions: 0, now };
        let query = parser.alternatives()?;
        if parser.peek() == Some(')') {
            return Err(parser.error("unmatched `)`", "remove it, or put the text in quotes"));
        }
        Ok(query)
    }

    /// Returns the query for iterations made between two times, written as for `since:` and `until:`. The error
    /// contains the name of the invalid argument and examples.
    pub fn made(since: Option<&str>, until: Option<&str>, now: Timestamp) -> Result<Query, (&'static str, String)> {
        let read = |name: &'static str, text: Option<&str>| match text {
            Some(text) => span(text, now).map(Some).ok_or((name, time::EXAMPLES.to_owned())),
            None => Ok(None),
        };
        let from = read("since", since)?.map(|(from, _)| from);
        let until = read("until", until)?.map(|(_, until)| until);
        Ok(match (from, until) {
            (None, None) => Query::everything(),
            _ => Condition::Made { from, until }.into(),
        })
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
    conditions: usize,
    now: Timestamp,
}

impl Parser {
    /// Parses `one two OR three`; `OR` binds less tightly than adjacency.
    fn alternatives(&mut self) -> Result<Query, ParseQueryError> {
        let mut alternatives = vec![self.all()?];
        loop {
            let start = self.at;
            if !self.keyword("OR") {
                break;
            }
            let before = alternatives.last();
            if before.is_some_and(|before| *before == Query::everything()) {
                return Err(self.error_at(
                    start,
                    "`OR` has nothing before it",
                    "write it between two terms, or in lower case to search for the word",
                ));
            }
            let next = self.all()?;
            if next == Query::everything() {
                return Err(self.error_at(
                    start,
                    "`OR` has nothing after it",
                    "write it between two terms, or in lower case to search for the word",
                ));
            }
            alternatives.push(next);
        }
        match alternatives.len() {
            1 => Ok(alternatives.pop().unwrap_or_else(Query::everything)),
            _ => Ok(Query::Any(alternatives)),
        }
    }

    fn all(&mut self) -> Result<Query, ParseQueryError> {
        let mut parts = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(')') => break,
                _ if self.at_keyword("OR") => break,
                _ if self.keyword("AND") => {}
                _ => parts.extend(self.part()?),
            }
        }
        match parts.len() {
            1 => Ok(parts.pop().unwrap_or_else(Query::everything)),
            _ => Ok(Query::All(parts)),
        }
    }

    /// Parses one condition or group, possibly negated; `None` for isolated punctuation.
    fn part(&mut self) -> Result<Option<Query>, ParseQueryError> {
        let start = self.at;
        let mut negated = false;
        loop {
            if self.keyword("NOT") {
                self.skip_blanks();
                negated = !negated;
                if matches!(self.peek(), None | Some(')')) {
                    return Err(self.error_at(
                        start,
                        "`NOT` has nothing after it",
                        "write it before a term, or in lower case to search for the word",
                    ));
                }
            } else if self.peek() == Some('-') {
                self.at += 1;
                negated = !negated;
                if self.peek().is_none_or(char::is_whitespace) {
                    // An isolated dash between words, as in a title.
                    return Ok(None);
                }
            } else {
                break;
            }
        }
        let query = match self.peek() {
            Some('(') => Some(self.group()?),
            Some('"') => Some(self.quoted(None)?),
            _ => self.word()?,
        };
        Ok(query.map(|query| if negated { Query::Not(Box::new(without_negative_prompts(query))) } else { query }))
    }

    fn group(&mut self) -> Result<Query, ParseQueryError> {
        let open = self.at;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(&format!("parentheses are nested more than {MAX_DEPTH} deep"), "simplify the query"));
        }
        self.at += 1;
        let query = self.alternatives()?;
        if self.peek() != Some(')') {
            return Err(self.error_at(open, "unclosed `(`", "add a `)`, or put the text in quotes"));
        }
        self.at += 1;
        self.depth -= 1;
        Ok(query)
    }

    /// Parses a quoted phrase, whose last word may be a prefix: `"glass brid*"`.
    fn quoted(&mut self, field: Option<Field>) -> Result<Query, ParseQueryError> {
        let start = self.at;
        let text = self.quotes(field.is_some())?;
        self.text_condition(start, field, &text, MatchKind::Whole)?.ok_or_else(|| {
            self.error_at(start, "the quotes contain no words", "put words between them, or remove them")
        })
    }

    /// Parses a bare word, or `facet:value`.
    fn word(&mut self) -> Result<Option<Query>, ParseQueryError> {
        let word_at = self.at;
        let mut word = String::new();
        while let Some(next) = self.peek() {
            if next.is_whitespace() || matches!(next, '(' | ')' | '"') {
                break;
            }
            if next == ':' && !word.is_empty() {
                self.at += 1;
                return self.facet(word_at, &word).map(Some);
            }
            word.push(next);
            self.at += 1;
        }
        self.text_condition(word_at, None, &word, MatchKind::Part)
    }

    fn facet(&mut self, start: usize, name: &str) -> Result<Query, ParseQueryError> {
        let value_at = self.at;
        let known = FACETS.iter().find(|(names, _)| names.contains(&name.to_lowercase().as_str()));
        let Some((_, kind)) = known else {
            let all: Vec<&str> = facet_names().collect();
            let hint = format!("put the text in quotes to search for it; the facets are {}", all.join(", "));
            return Err(self.error_at(start, &format!("unknown facet `{}`", excerpt(name)), &hint));
        };
        if let (Kind::Text(field), Some('"')) = (kind, self.peek()) {
            return self.quoted(Some(*field));
        }
        let (value, whole) = self.value(matches!(kind, Kind::Time(_)))?;
        if value.trim().is_empty() {
            let hint = format!("write it directly after the colon: {}", example(*kind));
            return Err(self.error_at(value_at, &format!("`{name}:` has no value"), &hint));
        }
        let invalid = |parser: &Parser| {
            let hint = example(*kind);
            parser.error_at(value_at, &format!("invalid value for `{name}:`: `{}`", excerpt(&value)), hint)
        };
        let condition = match kind {
            Kind::Text(field) => {
                let by = if whole { MatchKind::Whole } else { MatchKind::Part };
                return self.text_condition(value_at, Some(*field), &value, by)?.ok_or_else(|| invalid(self));
            }
            Kind::Name(facet) => name_condition(*facet, &value, whole),
            Kind::Number(quantity) => number(*quantity, &value).ok_or_else(|| invalid(self))?,
            Kind::Seed => Condition::Seed(digits(&value).ok_or_else(|| invalid(self))?),
            Kind::Size => {
                let (width, height) = value.split_once(['x', 'X', '×']).ok_or_else(|| invalid(self))?;
                let side = |text: &str| digits(text).and_then(|side| u32::try_from(side).ok());
                Condition::Size(side(width).ok_or_else(|| invalid(self))?, side(height).ok_or_else(|| invalid(self))?)
            }
            Kind::Rating => rating(&value).ok_or_else(|| invalid(self))?,
            Kind::Outcome => Condition::Outcome(match value.to_lowercase().as_str() {
                "succeeded" => OutcomeStatus::Succeeded,
                "failed" => OutcomeStatus::Failed,
                "refused" => OutcomeStatus::Refused,
                _ => return Err(invalid(self)),
            }),
            Kind::Status => match value.to_lowercase().as_str() {
                "active" => Condition::Archived(false),
                "archived" => Condition::Archived(true),
                "all" => return self.count(start, Query::everything()),
                _ => return Err(invalid(self)),
            },
            Kind::Session => Condition::Session(value.parse::<SessionId>().map_err(|_| invalid(self))?),
            Kind::Has => Condition::Has(match value.to_lowercase().as_str() {
                "image" | "images" | "picture" => Part::Image,
                "note" => Part::Note,
                "tag" | "tags" => Part::Tag,
                "rating" => Part::Rating,
                "lora" | "loras" => Part::Lora,
                "negative" => Part::Negative,
                _ => return Err(invalid(self)),
            }),
            Kind::Time(side) => {
                let (from, until) = span(&value, self.now).ok_or_else(|| invalid(self))?;
                match side {
                    Side::Since => Condition::Made { from: Some(from), until: None },
                    // `after:7d` means the same as `since:7d`, since its range ends now.
                    Side::After if until > self.now.millis() => Condition::Made { from: Some(from), until: None },
                    Side::After => Condition::Made { from: Some(until), until: None },
                    Side::Before => Condition::Made { from: None, until: Some(from) },
                    Side::Until => Condition::Made { from: None, until: Some(until) },
                    Side::On => Condition::Made { from: Some(from), until: Some(until) },
                }
            }
        };
        self.count(start, condition.into())
    }

    /// Parses the value after a colon, and returns whether it was quoted. A time may have two words: `last week`.
    fn value(&mut self, time: bool) -> Result<(String, bool), ParseQueryError> {
        if self.peek() == Some('"') {
            return Ok((self.quotes(true)?, true));
        }
        let mut value = self.run();
        if time && matches!(value.to_lowercase().as_str(), "last" | "this") {
            let back = self.at;
            self.skip_blanks();
            let next = self.run();
            if matches!(next.to_lowercase().as_str(), "week" | "month" | "year") {
                value = format!("{value}-{next}");
            } else {
                self.at = back;
            }
        }
        Ok((value, false))
    }

    fn run(&mut self) -> String {
        let mut run = String::new();
        while let Some(next) = self.peek().filter(|next| !next.is_whitespace() && !matches!(next, '(' | ')' | '"')) {
            run.push(next);
            self.at += 1;
        }
        run
    }

    /// Parses text between quotes. In the value of a facet, doubled quotes are an escaped quote; elsewhere they end a
    /// phrase and start the next.
    fn quotes(&mut self, is_value: bool) -> Result<String, ParseQueryError> {
        let open = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') if is_value && self.text.get(self.at + 1) == Some(&'"') => {
                    text.push('"');
                    self.at += 1;
                }
                Some('"') => break,
                Some(next) => text.push(next),
                None => return Err(self.error_at(open, "unclosed quote", "add a `\"` after the phrase")),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(text)
    }

    fn text_condition(
        &mut self,
        start: usize,
        field: Option<Field>,
        text: &str,
        by: MatchKind,
    ) -> Result<Option<Query>, ParseQueryError> {
        let prefix = text.ends_with('*');
        let text = text.strip_suffix('*').unwrap_or(text);
        if let Some(star) = text.chars().position(|c| c == '*') {
            let hint = "put it after the beginning of a word: brid*";
            return Err(self.error_at(start + star, "`*` is only allowed at the end of a word", hint));
        }
        let words: Vec<String> = words(text).into_iter().map(|word| word.text).collect();
        if words.is_empty() {
            return if prefix { self.count(start, Query::everything()).map(Some) } else { Ok(None) };
        }
        // Punctuation between the last word and the star ends the word: `glass, *`.
        let prefix = prefix && text.chars().last().is_some_and(|last| !words_end(last));
        self.conditions += words.len() - 1;
        let by = match words.as_slice() {
            _ if prefix => MatchKind::Start,
            [word] if by == MatchKind::Part && is_part(word) => MatchKind::Part,
            _ => MatchKind::Whole,
        };
        self.count(start, Condition::Text { field, words, by }.into()).map(Some)
    }

    fn count(&mut self, start: usize, query: Query) -> Result<Query, ParseQueryError> {
        self.conditions += 1;
        if self.conditions > MAX_CONDITIONS {
            let problem = format!("the query has more than {MAX_CONDITIONS} words and conditions");
            return Err(self.error_at(start, &problem, "search for a few distinctive words"));
        }
        Ok(query)
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = self.at_keyword(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn at_keyword(&self, word: &str) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let ends = rest.get(word.len()).is_none_or(|next| next.is_whitespace() || matches!(next, '(' | ')' | '"'));
        ends && rest.iter().take(word.len()).copied().eq(word.chars())
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn error(&self, problem: &str, hint: &str) -> ParseQueryError {
        self.error_at(self.at, problem, hint)
    }

    fn error_at(&self, at: usize, problem: &str, hint: &str) -> ParseQueryError {
        ParseQueryError { at, problem: problem.to_owned(), hint: hint.to_owned() }
    }
}

/// Restricts bare words to all texts except the negative prompt: `-fog` asks for images without fog, and a negative
/// prompt that contains `fog` should not exclude one.
fn without_negative_prompts(query: Query) -> Query {
    let each = |queries: Vec<Query>| queries.into_iter().map(without_negative_prompts).collect();
    match query {
        Query::All(queries) => Query::All(each(queries)),
        Query::Any(queries) => Query::Any(each(queries)),
        Query::Not(query) => Query::Not(Box::new(without_negative_prompts(*query))),
        Query::Is(Condition::Text { field: None, words, by }) => {
            let text = |field| Condition::Text { field: Some(field), words: words.clone(), by }.into();
            Query::Any([Field::Prompt, Field::Note, Field::Title, Field::Message].map(text).into())
        }
        other => other,
    }
}

fn words_end(last: char) -> bool {
    words(last.encode_utf8(&mut [0; 4])).is_empty()
}

/// Returns the beginning of a text, for a message.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::query::{Facet, Quantity};

    fn now() -> Timestamp {
        "2026-03-18T12:30:00.000Z".parse().unwrap()
    }

    fn parse(text: &str) -> Query {
        Query::parse(text, now()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn text(words: &str) -> Query {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let by = by(&words);
        Condition::Text { field: None, words, by }.into()
    }

    /// Returns how words are compared: a single word of three letters or more is also found inside others.
    fn by(words: &[String]) -> MatchKind {
        let part = matches!(words, [word] if is_part(word));
        if part { MatchKind::Part } else { MatchKind::Whole }
    }

    fn without(words: &str) -> Query {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let text = |field| Condition::Text { field: Some(field), words: words.clone(), by: by(&words) }.into();
        Query::Not(Box::new(Query::Any([Field::Prompt, Field::Note, Field::Title, Field::Message].map(text).into())))
    }

    #[test]
    fn a_value_may_contain_quotes() {
        use crate::model::query::facet_term;
        for value in ["plain", "6\" \"big\" hands", "\"", "a \"b or c\"", "ends with \""] {
            let term = facet_term("tag", value);
            assert_eq!(parse(&term), name(Facet::Tag, MatchKind::Whole, value), "{term}");
        }
        assert_eq!(parse("\"a b\"\"c d\""), Query::All(vec![text("a b"), text("c d")]), "phrases stay two");
        assert!(Query::parse("tag:\"\"", now()).is_err());
    }

    fn name(facet: Facet, by: MatchKind, value: &str) -> Query {
        Condition::Name { facet, by, value: value.to_owned() }.into()
    }

    #[test]
    fn the_example_of_the_documentation() {
        let until = "2026-05-01T00:00:00.000Z".parse::<Timestamp>().unwrap().millis();
        assert_eq!(
            parse("bridge model:sdxl rating:>=4 -fog before:2026-05"),
            Query::All(vec![
                text("bridge"),
                name(Facet::Model, MatchKind::Part, "sdxl"),
                Condition::Rating(4, 5).into(),
                without("fog"),
                Condition::Made { from: None, until: Some(until) }.into(),
            ])
        );
    }

    #[test]
    fn words_phrases_and_alternatives() {
        for blank in ["", "  ", " , - ! ", "()", "AND"] {
            assert_eq!(parse(blank), Query::everything(), "{blank:?}");
        }
        assert_eq!(parse("Glass-Bridge"), text("glass bridge"));
        assert_eq!(parse("\"at night\""), text("at night"));
        assert_eq!(parse("玻璃桥"), text("玻 璃 桥"));
        assert_eq!(parse("a OR b c"), Query::Any(vec![text("a"), Query::All(vec![text("b"), text("c")])]));
        assert_eq!(parse("(a OR b) c"), Query::All(vec![Query::Any(vec![text("a"), text("b")]), text("c")]));
        assert_eq!(parse("a AND NOT b"), parse("a -b"));
        assert_eq!(parse("--a"), text("a"));
        let Query::Not(both) = parse("-(a b)") else { panic!() };
        let Query::All(both) = *both else { panic!() };
        assert_eq!(
            both.into_iter().map(|part| Query::Not(Box::new(part))).collect::<Vec<_>>(),
            [without("a"), without("b")]
        );
        let fog = |field, by| Query::from(Condition::Text { field, words: vec!["fog".into()], by });
        let negative = fog(Some(Field::Negative), MatchKind::Part);
        assert_eq!(parse("\"fog\""), fog(None, MatchKind::Whole), "quotes ask for the whole word");
        assert_eq!(parse("note:\"fog\""), fog(Some(Field::Note), MatchKind::Whole));
        assert_eq!(parse("-negative:fog"), Query::Not(Box::new(negative)));
        assert_eq!(parse("or and not"), Query::All(vec![text("or"), text("and"), text("not")]));
        let start = |field, words: &str| {
            let words = words.split(' ').map(str::to_owned).collect();
            Query::from(Condition::Text { field, words, by: MatchKind::Start })
        };
        assert_eq!(parse("brid*"), start(None, "brid"));
        assert_eq!(parse("title:\"glass brid*\""), start(Some(Field::Title), "glass brid"));
        assert_eq!(parse("*"), Query::everything());
    }

    #[test]
    fn every_facet_is_parsed() {
        assert_eq!(parse("tag:hero"), name(Facet::Tag, MatchKind::Whole, "hero"));
        assert_eq!(parse("tag:her*"), name(Facet::Tag, MatchKind::Start, "her"));
        assert_eq!(parse("MODEL:\"SD XL\""), name(Facet::Model, MatchKind::Whole, "sd xl"));
        assert_eq!(parse("provider:Comfy"), name(Facet::Generator, MatchKind::Part, "comfy"));
        assert_eq!(parse("seed:18446744073709551615"), Condition::Seed(u64::MAX).into());
        assert_eq!(parse("size:1024x768"), Condition::Size(1024, 768).into());
        for (written, low, high) in
            [("3", 3, 3), (">=4", 4, 5), (">3", 4, 5), ("<=2", 1, 2), ("<2", 1, 1), ("2..4", 2, 4), ("none", 0, 0)]
        {
            assert_eq!(parse(&format!("rating:{written}")), Condition::Rating(low, high).into(), "{written}");
        }
        for (written, low, high) in [
            ("7.5", 7_500_000, 7_500_000),
            (">=7.5", 7_500_000, i64::MAX),
            (">7", 7_000_001, i64::MAX),
            ("<=7", i64::MIN + 1, 7_000_000),
            ("<0.01", i64::MIN + 1, 9_999),
            ("5..8", 5_000_000, 8_000_000),
        ] {
            let number = Condition::Number { quantity: Quantity::GuidanceScale, low, high };
            assert_eq!(parse(&format!("cfg:{written}")), number.into(), "{written}");
        }
        assert_eq!(parse("scheduler:karras"), name(Facet::Scheduler, MatchKind::Part, "karras"));
        assert_eq!(parse("actor:claude"), name(Facet::Actor, MatchKind::Part, "claude"));
        assert_eq!(parse("outcome:refused"), Condition::Outcome(OutcomeStatus::Refused).into());
        assert_eq!(parse("status:archived"), Condition::Archived(true).into());
        assert_eq!(parse("status:all"), Query::everything());
        assert_eq!(parse("has:image"), Condition::Has(Part::Image).into());
        assert_eq!(parse("since:last week x"), parse("since:\"last week\" x"));
        assert_eq!(parse("on:last-week"), parse("since:last-week until:last-week").and_both());
        assert_eq!(parse("after:7d"), parse("since:7d"));
    }

    impl Query {
        /// Joins two open ranges into one, to compare it with a closed one.
        fn and_both(self) -> Query {
            match self {
                Query::All(parts) => match parts.as_slice() {
                    [
                        Query::Is(Condition::Made { from, until: None }),
                        Query::Is(Condition::Made { from: None, until }),
                    ] => Condition::Made { from: *from, until: *until }.into(),
                    _ => Query::All(parts),
                },
                other => other,
            }
        }
    }

    #[test]
    fn errors_point_at_a_character() {
        for (query, at, problem) in [
            ("bridge modle:sdxl", 7, "unknown facet `modle`"),
            ("été color:red", 4, "unknown facet `color`"),
            ("rating:six", 7, "invalid value for `rating:`: `six`"),
            ("rating:", 7, "`rating:` has no value"),
            ("a seed:-1", 7, "invalid value for `seed:`: `-1`"),
            ("cfg:high", 4, "invalid value for `cfg:`: `high`"),
            ("steps:-3", 6, "invalid value for `steps:`: `-3`"),
            ("size:1024", 5, "invalid value for `size:`: `1024`"),
            ("before:soon", 7, "invalid value for `before:`: `soon`"),
            ("(a b", 0, "unclosed `(`"),
            ("a b)", 3, "unmatched `)`"),
            ("a \"b", 2, "unclosed quote"),
            ("a \" , \"", 2, "the quotes contain no words"),
            ("OR a", 0, "`OR` has nothing before it"),
            ("a OR", 2, "`OR` has nothing after it"),
            ("a NOT", 2, "`NOT` has nothing after it"),
            ("br*dge", 2, "`*` is only allowed at the end of a word"),
            ("session:latest", 8, "invalid value for `session:`: `latest`"),
        ] {
            let error = Query::parse(query, now()).unwrap_err();
            assert_eq!((error.at, error.problem.as_str()), (at, problem), "{query}");
            assert!(!error.hint.is_empty(), "{query}");
            assert_eq!(error.to_string(), format!("{problem}, at character {}", at + 1));
        }
    }

    #[test]
    fn hostile_queries_are_refused() {
        for (query, problem) in [
            ("a ".repeat(2000), "the query has more than 128 words and conditions"),
            ("a-".repeat(2000), "the query has more than 128 words and conditions"),
            ("(".repeat(4000), "parentheses are nested more than 32 deep"),
            ("-(".repeat(2000), "parentheses are nested more than 32 deep"),
            ("x".repeat(1 << 20), "the query is 1048576 bytes long: the limit is 4096"),
        ] {
            let error = Query::parse(&query, now()).unwrap_err();
            assert_eq!(error.problem, problem);
        }
        assert!(Query::parse(&"-".repeat(4096), now()).is_ok());
        assert!(Query::parse(&format!("{}a{}", "(".repeat(32), ")".repeat(32)), now()).is_ok());
    }
}
