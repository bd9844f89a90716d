//! `retake search`.

use std::ffi::OsString;

use clap::Args;
use unicode_width::UnicodeWidthStr;

use crate::model::{Query, Seed, Timestamp};
use crate::search::Sort;
use crate::wire::{ExcerptField, ExcerptPart, FacetCount, FacetsView, FoundIteration, SearchRequest, SearchView};

use super::args::Json;
use super::choice::choice;
use super::context::Context;
use super::ending::{Exit, Failure};
use super::output::{BAD, FAINT, GOOD, HEADING, NAME, Output, WARNING, paint};
use super::{references, times, words};

/// Search iterations by words, recipe, rating, time or appearance
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct SearchArgs {
    /// Words and conditions that must all match
    #[arg(value_name = "QUERY")]
    query: Vec<String>,
    /// Images that look like this reference, hash or file, most similar first
    #[arg(long, value_name = "IMAGE")]
    similar_to: Option<String>,
    /// The order
    #[arg(long, value_parser = choice::<Sort>(), default_value = "newest")]
    sort: Sort,
    /// Also count the models, tags and other values of the matches
    #[arg(long)]
    facets: bool,
    /// Maximum number of results (1–1000) [default: 50]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = super::args::limit)]
    limit: Option<u32>,
    /// Continue after a previous page; use the same query
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

const AFTER_HELP: &str = "\
Queries:
  glass bridge               both words, in a prompt, negative prompt,
                             note, title or message; also inside words
                             (1girl) and as plurals (bridges)
  '\"glass bridge\"'           these whole words in this order
  br*                        words that begin so
  bridge -fog                the one and not the other
  '(bridge OR river) snow'   a choice

Facets:
  model lora sampler scheduler provider
                             a part of the name; in quotes all of it
  actor                      a part of the program or user that did it
  tag project                the name in any case; her* begins so
  seed size session          seed:42 size:1024x768
                             session:session-2025-12-11-001
  steps cfg cost rating      steps:30 'cfg:>=7.5' 'cost:>0.01'
                             steps:20..30 'rating:>=4' rating:none
  outcome                    succeeded failed refused
  status                     active archived all
  has                        image note tag rating lora negative
  since after before until on
                             2026-03 2026-03-14 yesterday last-week 7d 36h
  prompt negative note title message
                             words only there

Examples:
  retake search bridge model:sdxl 'rating:>=4' -fog before:2026-05
  retake search --similar-to latest
  retake search tag:hero --sort best --json | jq .totalMatches";

impl SearchArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let mut request = self.request();
        let query = request.query.clone().unwrap_or_default();
        let now = Timestamp::now();
        request.query = request.query.map(|query| times::localize_query(&query, now));
        context.read_or_empty(|api, output| {
            if let Some(like) = &mut request.similar_to {
                *like = references::expand(api, like)?;
            }
            let api = if output.is_json() { api.clone() } else { api.clone().marking_prompts() };
            let view = match api.search(&request) {
                Ok(view) => view,
                Err(error) => {
                    let failure = Failure::from(error);
                    if output.is_json() {
                        return Err(failure);
                    }
                    // Print the position of the mistake after the message.
                    let exit = failure.report(output);
                    point(&query, output);
                    return Ok(exit);
                }
            };
            output.bar().clear();
            output.answer(&view, |output, view| layout(view, &request, output));
            Ok(Exit::Done)
        })
    }

    fn request(self) -> SearchRequest {
        // A single argument is a query as written; several arguments are its words, as split by the shell.
        let query = match self.query.as_slice() {
            [query] => query.clone(),
            words => words.iter().map(|word| requoted(word)).collect::<Vec<_>>().join(" "),
        };
        SearchRequest {
            query: (!query.trim().is_empty()).then_some(query),
            similar_to: self.similar_to,
            sort: Some(self.sort),
            facets: self.facets,
            limit: self.limit,
            cursor: self.cursor,
            ..SearchRequest::default()
        }
    }
}

/// Rewrites `-fog` as `NOT fog`, since the argument parser would take it for three flags.
pub(super) fn expand_negations(args: Vec<OsString>) -> Vec<OsString> {
    let Some(verb) = args.iter().position(|arg| arg == "search") else { return args };
    // Repeated `-v` and `-h` are flags of every command.
    let is_flag = |word: &str| word.chars().all(|c| c == 'v') || matches!(word, "h" | "V");
    // The argument after one of these is its value, such as -1.
    let takes_value = |arg: &OsString| {
        let flags = ["--limit", "--cursor", "--similar-to", "--sort", "--workspace", "--color"];
        flags.iter().any(|flag| arg == flag)
    };
    let mut literal = false;
    let mut is_value = false;
    let mut spelt = Vec::with_capacity(args.len());
    for (number, arg) in args.into_iter().enumerate() {
        literal |= arg == "--";
        if std::mem::replace(&mut is_value, takes_value(&arg)) {
            spelt.push(arg);
            continue;
        }
        let word = arg.to_str().and_then(|arg| arg.strip_prefix('-')).filter(|word| !word.starts_with('-'));
        match word.filter(|word| number > verb && !literal && !word.is_empty() && !is_flag(word)) {
            Some(word) => spelt.extend([OsString::from("NOT"), OsString::from(word)]),
            None => spelt.push(arg),
        }
    }
    spelt
}

/// Restores the quotes that the shell removed from `model:"SD XL"`, recognisable by the space in it.
fn requoted(word: &str) -> String {
    match word.split_once(':') {
        Some((facet, value))
            if value.contains(char::is_whitespace)
                && !facet.is_empty()
                && facet.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
                && !value.contains('"') =>
        {
            format!("{facet}:\"{value}\"")
        }
        _ => word.to_owned(),
    }
}

/// Points at the mistake in a query.
fn point(query: &str, output: &mut Output) {
    // The meaning of `yesterday` does not affect the position of a mistake.
    let Some(now) = Timestamp::from_millis(0) else { return };
    let Err(wrong) = Query::parse(query, now) else { return };
    if output.is_json() || query.contains(['\n', '\r', '\t']) {
        return;
    }
    const BEFORE: usize = 50;
    const LENGTH: usize = 70;
    let start = wrong.at.saturating_sub(BEFORE);
    let shown: String = query.chars().skip(start).take(LENGTH).collect();
    let before: String = query.chars().skip(start).take(wrong.at - start).collect();
    output.aside(format_args!("  {}", words::clean(&shown)));
    output.aside(format_args!("  {}{}", " ".repeat(words::clean(&before).width()), paint(BAD, "^")));
}

fn layout(view: &SearchView, request: &SearchRequest, output: &mut Output) {
    for found in &view.iterations {
        row(found, output);
    }
    if let Some(facets) = &view.facets {
        counts(facets, output);
    }
    foot(view, request, output);
}

/// Prints a result on two lines: the reference with the main facts, and the matched words.
fn row(found: &FoundIteration, output: &mut Output) {
    let mut facts = vec![words::minute(found.timestamp)];
    facts.extend(found.outcome.map(|outcome| format!("{outcome:?}").to_lowercase()));
    facts.extend(found.metadata.model.as_deref().map(words::one_line));
    facts.extend(found.metadata.seed.map(|Seed(seed)| format!("seed {seed}")));
    facts.extend(found.metadata.cost.as_ref().map(words::cost));
    facts.extend(found.distance.map(|distance| match found.identical {
        true => "identical".to_owned(),
        false => format!("distance {distance}"),
    }));
    let (tags, ratings) = words::tags_and_ratings(&found.tags);
    facts.extend(ratings.into_iter().chain(tags.into_iter().map(|tag| format!("#{tag}"))));
    facts.extend(found.project.as_deref().map(words::one_line));
    if found.archived {
        facts.push("archived".to_owned());
    }
    let reference = found.reference.to_string();
    let stars = found.rating.map(words::stars).unwrap_or_default();
    let used = reference.width() + 2 + if stars.is_empty() { 0 } else { stars.width() + 2 };
    let facts = output.fit(&facts.join(" · "), used);
    let mut line = paint(NAME, reference);
    if !stars.is_empty() {
        line += &format!("  {}", paint(WARNING, stars));
    }
    output.line(format_args!("{line}  {}", paint(FAINT, facts)));
    let width = output.width().map_or(usize::MAX, |width| width.saturating_sub(4));
    if !found.matches.iter().any(|excerpt| excerpt.field == ExcerptField::Prompt) {
        output.line(format_args!("    {}", words::cut(&words::one_line(&found.prompt), width)));
    }
    for excerpt in &found.matches {
        let (label, used) = match excerpt.field {
            ExcerptField::Prompt => (String::new(), 0),
            ExcerptField::NegativePrompt => (paint(HEADING, "negative "), 9),
            ExcerptField::Note => (paint(HEADING, "note "), 5),
            ExcerptField::Title => (paint(HEADING, "title "), 6),
            ExcerptField::Message => (paint(HEADING, "message "), 8),
        };
        output.line(format_args!("    {label}{}", marked(&excerpt.parts, width.saturating_sub(used))));
    }
}

/// Returns the parts on one line, with matches in colour, truncated to the width.
fn marked(parts: &[ExcerptPart], width: usize) -> String {
    let mut line = String::new();
    let mut left = width;
    for part in parts {
        let clean = words::clean(&part.text);
        let text: String = clean.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        let text = words::cut(&text, left);
        left = left.saturating_sub(text.width());
        line += &if part.is_match { paint(GOOD.bold(), text) } else { text };
        if left == 0 {
            break;
        }
    }
    line
}

fn counts(facets: &FacetsView, output: &mut Output) {
    let all: [(&str, &[FacetCount]); 10] = [
        ("model", &facets.model),
        ("lora", &facets.lora),
        ("sampler", &facets.sampler),
        ("generator", &facets.generator),
        ("size", &facets.size),
        ("tag", &facets.tag),
        ("rating", &facets.rating),
        ("project", &facets.project),
        ("outcome", &facets.outcome),
        ("status", &facets.status),
    ];
    output.gap();
    for (facet, counts) in all.iter().filter(|(_, counts)| !counts.is_empty()) {
        let values = counts.iter().map(|one| format!("{} {}", words::one_line(&one.value), one.count));
        let values = values.collect::<Vec<_>>().join(" · ");
        output.line(format_args!("{} {}", paint(HEADING, format_args!("{facet:<9}")), output.fit(&values, 10)));
    }
}

fn foot(view: &SearchView, request: &SearchRequest, output: &mut Output) {
    let asked = request.query.is_some() || request.similar_to.is_some();
    if view.total_matches == 0 {
        output.line(if asked { "No iteration matches." } else { "No iterations yet." });
        if let Some(hint) = &view.hint {
            output.hint(hint);
        }
        return;
    }
    let all = match view.total_matches {
        1 => "1 match".to_owned(),
        many => format!("{many} matches"),
    };
    output.gap();
    output.line(paint(
        FAINT,
        match &view.next_cursor {
            Some(cursor) => format!("{} of {all}; next page: --cursor {cursor}", view.iterations.len()),
            None if request.cursor.is_some() => format!("last page of {all}"),
            None => all,
        },
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excluded_word_is_not_a_flag() {
        let spelt = |line: &str| {
            let args = line.split(' ').map(OsString::from).collect();
            expand_negations(args).into_iter().map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("retake search bridge -fog --json", "retake search bridge NOT fog --json"),
            ("retake search -model:sdxl -v a", "retake search NOT model:sdxl -v a"),
            ("retake search -- -fog", "retake search -- -fog"),
            ("retake -v search a - b -h", "retake -v search a - b -h"),
            ("retake list -fog", "retake list -fog"),
        ] {
            assert_eq!(spelt(line), expected);
        }
    }

    #[test]
    fn the_help_names_every_facet() {
        let (_, table) = AFTER_HELP.split_once("Facets:").unwrap();
        let table = table.split("Examples:").next().unwrap();
        let named: Vec<&str> = table.split(|c: char| !c.is_ascii_alphabetic()).collect();
        for facet in crate::model::query::facet_names() {
            assert!(named.contains(&facet), "{facet}");
        }
    }

    #[test]
    fn quotes_that_the_shell_removed_are_restored() {
        assert_eq!(requoted("model:SD XL"), "model:\"SD XL\"");
        assert_eq!(requoted("-tag:two words"), "-tag:\"two words\"");
        for as_it_is in ["bridge", "model:sdxl", "\"at night\"", "(a OR b) c", "model:\"a b\" c", "two words"] {
            assert_eq!(requoted(as_it_is), as_it_is);
        }
    }
}
