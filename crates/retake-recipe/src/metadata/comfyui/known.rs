//! What known nodes output, where the names of their inputs do not tell: comparisons, choices, and texts and numbers that
//! are cut, put together or computed.
//!
//! Nearly all nodes are recognised by their inputs (see `texts`, `values` and `switches`). The ones here have inputs like
//! others and do something else with them, so that a generic rule would find a wrong value. What they do was taken from
//! their public sources.

use regex::Regex;
use serde_json::Value;

use super::arithmetic::Formula;
use super::graph::Node;
use super::patterns::{Flags, Patterns, replaced, replaced_matches};
use crate::metadata::json;

/// Resolves an input to its value.
type Get<'g> = &'g mut dyn FnMut(&str) -> Option<Value>;

/// What a known node outputs.
pub(super) enum Output {
    Value(Value),
    /// It depends on the run, or on something that is not in the file.
    Unknown,
}

impl Output {
    fn of<T: Into<Value>>(value: Option<T>) -> Output {
        value.map_or(Output::Unknown, |value| Output::Value(value.into()))
    }

    pub(super) fn value(self) -> Option<Value> {
        match self {
            Output::Value(value) => Some(value),
            Output::Unknown => None,
        }
    }
}

/// Returns what a node outputs; `None` if it is not one of the known nodes.
pub(super) fn output(patterns: &Patterns, node: &Node, slot: u64, get: Get<'_>) -> Option<Output> {
    text_output(patterns, node, slot, get).or_else(|| condition(node, get)).or_else(|| number(node, slot, get))
}

/// Returns the text of an output.
fn text_output(patterns: &Patterns, node: &Node, slot: u64, get: Get<'_>) -> Option<Output> {
    let part = |names: &[&'static str]| names.get(usize::try_from(slot).ok()?).copied();
    // One text for each output.
    let named = match node.class.as_str() {
        "Text Compare" => part(&["text_a", "text_b"]),
        "Prompt With SDXL" => part(&["", "positive_prompt", "negative_prompt", "positive_style", "negative_style"]),
        "Prompt With Style" => part(&["", "positive_prompt", "negative_prompt"]),
        "SDXL Power Prompt - Positive (rgthree)" => part(&["", "", "", "prompt_g", "prompt_l"]),
        "CLIP Positive-Negative w/Text (WLSH)" => part(&["", "", "positive_text", "negative_text"]),
        "ETN_Parameter" => Some("default"),
        "ImpactValueReceiver" => Some("value"),
        "LayerUtility: Integer" => Some("int_value"),
        "Repeater|pysssss" => Some("source"),
        "DynamicDelayProcessor" => Some("any_input"),
        "IsOneOfGroupsActive" => Some("active_state"),
        "CustomCombo" => part(&["choice", "index"]),
        _ => None,
    };
    if let Some(name) = named.filter(|name| !name.is_empty()) {
        return Some(Output::of(get(name)));
    }
    let text = match node.class.as_str() {
        "RegexExtract" => extracted(patterns, get),
        "StringSubstring" => substring(get),
        "CaseConverter" => text(get, "string").and_then(|of| recased(&of, text(get, "mode")?.as_str())),
        "CR Text Operation" => text(get, "text").and_then(|of| recased(&of, text(get, "operation")?.as_str())),
        "Text Find and Replace" => replaced_by_pattern(patterns, get),
        "Text Multiline" => text(get, "text").map(|of| without_comments(&of)),
        "CR Multiline Text" => text(get, "multiline_text").or_else(|| text(get, "text")).and_then(|of| {
            let removes = get("remove_chars") == Some(Value::Bool(true));
            let chars = if removes { text(get, "chars_to_remove")? } else { String::new() };
            Some(without_comments(&of).replace(|c: char| chars.contains(c), ""))
        }),
        "Text Load Line From File" => line_of(get),
        "CR Split String" => text(get, "text").and_then(|of| {
            let delimiter = text(get, "delimiter")?;
            of.split(delimiter.as_str()).nth(usize::try_from(slot).ok()?).map(|part| part.trim().to_owned())
        }),
        "CR Text Blacklist" => text(get, "text").and_then(|of| {
            let (words, by) = (text(get, "blacklist_words")?, text(get, "replacement_text").unwrap_or_default());
            words.lines().try_fold(of, |of, word| replaced(&of, word, &by))
        }),
        "CR Get Parameter From Prompt" => text(get, "prompt").and_then(|of| {
            Some(of).filter(|of| get("search_string").is_some_and(|it| !of.contains(it.as_str().unwrap_or_default())))
        }),
        "ImpactStringSelector" => selected(get),
        "ttN text3BOX_3WAYconcat" => {
            let sets: [&[&str]; 7] = [
                &["text1"],
                &["text2"],
                &["text3"],
                &["text1", "text2"],
                &["text1", "text3"],
                &["text2", "text3"],
                &["text1", "text2", "text3"],
            ];
            sets.get(usize::try_from(slot).ok()?).and_then(|set| boxes(get, set))
        }
        "ttN text7BOX_concat" => {
            let all = ["text1", "text2", "text3", "text4", "text5", "text6", "text7"];
            let one = usize::try_from(slot).ok()?;
            boxes(get, all.get(one..=one).unwrap_or(&all))
        }
        "Apply Text Template (mtb)" => templated(node, get),
        "String Replace (mtb)" => {
            text(get, "string").and_then(|of| replaced(&of, &text(get, "old")?, &text(get, "new")?))
        }
        "DF_String_Replace" => text(get, "Text")
            .filter(|_| text(get, "Mode").as_deref() == Some("Strict"))
            .and_then(|of| replaced(&of, &text(get, "Pattern")?, &text(get, "Replace_With")?)),
        "DF_String_Concatenate" => text(get, "Prepend")
            .and_then(|of| Some([of, text(get, "Append")?].join(&text(get, "Delimiter").unwrap_or_default()))),
        "Prompt (LoraManager)" => with_triggers(node, get),
        "TriggerWord Toggle (LoraManager)" => toggled(node),
        "TextInputBasic" => text(get, "text").and_then(|of| {
            let mut around = |name: &str| if node.has(name) { text(get, name) } else { Some(String::new()) };
            Some([around("prefix")?, of, around("suffix")?].concat())
        }),
        "SomethingToString" => get("input")
            .as_ref()
            .and_then(json::plain)
            .map(|of| [text(get, "prefix").unwrap_or_default(), of, text(get, "suffix").unwrap_or_default()].concat()),
        "Text String Truncate"
        | "Text Dictionary Get"
        | "Text Find and Replace by Dictionary"
        | "Text List to Text"
        | "Text Random Line"
        | "Text Shuffle"
        | "PromptSimplification"
        | "TextSplitByDelimiter"
        | "JoinWithDelimiter"
        | "TextRandomMultiline"
        | "TextSwitchCase"
        | "Bjornulf_LineSelector"
        | "Bjornulf_MatchTextToInput"
        | "Bjornulf_TextReplace"
        | "Bjornulf_TextSplitin5"
        | "Bjornulf_WriteTextAdvanced"
        | "PromptComposerTextSingle"
        | "promptComposerTextMultiple"
        | "Power Puter (rgthree)" => None,
        _ => return None,
    };
    Some(Output::of(text))
}

/// Returns whether the condition that a node states is met.
fn condition(node: &Node, get: Get<'_>) -> Option<Output> {
    let sensitive = |get: Get<'_>, name: &str, default: bool| get(name).and_then(|on| on.as_bool()).unwrap_or(default);
    let pair = |get: Get<'_>, one: &str, other: &str, exact: bool| {
        let pair = (text(get, one)?, text(get, other)?);
        Some(if exact { pair } else { (pair.0.to_lowercase(), pair.1.to_lowercase()) })
    };
    let is_met = match node.class.as_str() {
        "StringContains" => {
            let exact = sensitive(get, "case_sensitive", true);
            pair(get, "string", "substring", exact).map(|(of, part)| of.contains(&part))
        }
        "Text Contains" => {
            let exact = !sensitive(get, "case_insensitive", true);
            pair(get, "text", "sub_text", exact).map(|(of, part)| of.contains(&part))
        }
        "LayerUtility: StringCondition" => pair(get, "text", "sub_string", true)
            .and_then(|(of, part)| Some(of.contains(&part) == (text(get, "condition")? == "include"))),
        "StringCompare" => {
            let exact = sensitive(get, "case_sensitive", true);
            pair(get, "string_a", "string_b", exact).and_then(|(a, b)| match text(get, "mode")?.as_str() {
                "Starts With" => Some(a.starts_with(&b)),
                "Ends With" => Some(a.ends_with(&b)),
                "Equal" => Some(a == b),
                _ => None,
            })
        }
        "easy mathString" => {
            let exact = sensitive(get, "case_sensitive", false);
            pair(get, "a", "b", exact).and_then(|(a, b)| match text(get, "operation")?.as_str() {
                "a == b" => Some(a == b),
                "a != b" => Some(a != b),
                "a IN b" => Some(b.contains(&a)),
                "a BEGINSWITH b" => Some(a.starts_with(&b)),
                "a ENDSWITH b" => Some(a.ends_with(&b)),
                _ => None,
            })
        }
        "Logic NOT" | "ImpactNeg" => {
            ["boolean", "value"].iter().find_map(|name| get(name)).and_then(|on| is_true(&on)).map(|on| !on)
        }
        "LayerUtility: BooleanOperator" | "LayerUtility: BooleanOperatorV2" => operated(get),
        "BooleanPrimitive" => {
            let reverses = get("reverse") == Some(Value::Bool(true));
            get("value").and_then(|on| is_true(&on)).map(|on| on != reverses)
        }
        "ImpactIfNone" => Some(node.has("any_input")),
        "ImpactLogicalOperators" | "Logic Comparison AND" | "Logic Comparison OR" | "Logic Comparison XOR" => {
            let operator = node.class.rsplit(' ').next().unwrap_or_default().to_lowercase();
            let operator = node.inputs.get("operator").and_then(Value::as_str).map_or(operator, str::to_owned);
            let mut side = |names: [&str; 2]| names.iter().find_map(|name| get(name)).and_then(|on| is_true(&on));
            side(["bool_a", "boolean_a"]).zip(side(["bool_b", "boolean_b"])).and_then(|(a, b)| {
                match operator.as_str() {
                    "and" => Some(a && b),
                    "or" => Some(a || b),
                    "xor" => Some(a != b),
                    _ => None,
                }
            })
        }
        // It takes a fraction.
        "Logic Boolean" => get("boolean").and_then(|on| as_number(&on)).map(|on| on.round_ties_even() != 0.0),
        _ => {
            let comparison = ["comparison", "cmp"].iter().find_map(|name| node.inputs.get(*name)?.as_str());
            let comparison = comparison.filter(|_| node.has("a") && node.has("b"))?;
            compared(get, comparison)
        }
    };
    Some(Output::of(is_met))
}

/// Applies an operator to two values, each of which is linked or typed.
fn operated(get: Get<'_>) -> Option<bool> {
    let mut side = |linked: &str, typed: &str| get(linked).or_else(|| get(typed));
    let (a, b) = (side("a", "a_value")?, side("b", "b_value"));
    let truth = |value: &Value| is_true(value);
    let operator = text(get, "operator")?;
    if operator == "not(a)" {
        return truth(&a).map(|on| !on);
    }
    let b = b?;
    let numbers = as_number(&a).zip(as_number(&b));
    match (operator.as_str(), numbers) {
        ("and", _) => Some(truth(&a)? && truth(&b)?),
        ("or", _) => Some(truth(&a)? || truth(&b)?),
        ("xor", _) => Some(truth(&a)? != truth(&b)?),
        ("==", _) => Some(a == b),
        ("!=", _) => Some(a != b),
        ("<", Some((a, b))) => Some(a < b),
        (">", Some((a, b))) => Some(a > b),
        ("<=", Some((a, b))) => Some(a <= b),
        (">=", Some((a, b))) => Some(a >= b),
        _ => None,
    }
}

/// Compares the inputs `a` and `b`: `a == b`.
fn compared(get: Get<'_>, comparison: &str) -> Option<bool> {
    let (a, b) = (get("a")?, get("b")?);
    // `a == b`, or only the operator.
    let operator = comparison.trim().trim_start_matches('a').trim_end_matches('b').trim();
    if let (Some(a), Some(b)) = (as_number(&a), as_number(&b)) {
        return match operator {
            "==" | "=" => Some(a == b),
            "!=" | "<>" => Some(a != b),
            "<" => Some(a < b),
            ">" => Some(a > b),
            "<=" => Some(a <= b),
            ">=" => Some(a >= b),
            _ => None,
        };
    }
    match operator {
        "==" | "=" => Some(a == b),
        "!=" | "<>" => Some(a != b),
        _ => None,
    }
}

/// Returns the number of an output.
fn number(node: &Node, slot: u64, get: Get<'_>) -> Option<Output> {
    let mut of = |name: &str| as_number(&get(name)?);
    let result = match node.class.as_str() {
        "MathExpression|pysssss" => {
            formula(node, "expression", &mut of).map(|it| if slot == 0 { it.trunc() } else { it })
        }
        "Evaluate Integers" => formula(node, "python_expression", &mut of).map(f64::trunc),
        "Evaluate Floats" => formula(node, "python_expression", &mut of),
        "SimpleMath+" => formula(node, "value", &mut of).map(|it| if slot == 0 { it.round_ties_even() } else { it }),
        "SimpleMathCondition+" => of("evaluate")
            .and_then(|on| formula(node, if on == 0.0 { "on_false" } else { "on_true" }, &mut of))
            .map(|it| if slot == 0 { it.round_ties_even() } else { it }),
        "SimpleMathSlider+" => of("value").and_then(|share| {
            let (min, max) = (of("min")?, of("max")?);
            let value = min + share * (max - min);
            Some(if slot == 0 { value } else { value.trunc() })
        }),
        "easy mathInt" => match node.inputs.get("operation").and_then(Value::as_str) {
            Some("divide") => of("a").and_then(|a| Some((a / of("b")?).floor())),
            Some("modulo") => of("a").and_then(|a| of("b").map(|b| a - b * (a / b).floor())),
            _ => return None,
        },
        "LayerUtility: Float" => of("float_value"),
        "LayerUtility: NumberCalculator" | "LayerUtility: NumberCalculatorV2" => {
            let mut side = |linked: &str, typed: &str| of(linked).or_else(|| of(typed));
            side("a", "a_value").and_then(|a| {
                let (b, operator) = (side("b", "b_value")?, node.inputs.get("operator")?.as_str()?);
                let result = match operator {
                    "//" => (a / b).floor(),
                    operator => {
                        Formula::Operation(operator).compute(&mut |name| Some(if name == "a" { a } else { b }))?
                    }
                };
                Some(if slot == 0 { result.trunc() } else { result })
            })
        }
        "FloatSlider" | "IntNumber" | "LimitNumber" => {
            of("number").and_then(|it| Some(it.max(of("min_value")?).min(of("max_value")?)))
        }
        "MultiplicationNode" => of("numberA").and_then(|it| {
            let result = it * of("multiply_by")? + of("add_by")?;
            Some(if slot == 1 { result.trunc() } else { result })
        }),
        "SeedSelector" => of("mode").and_then(|random| of(if random == 0.0 { "fixed_seed" } else { "seed" })),
        "Constant Number" => {
            of("number_as_text").or_else(|| of("number")).map(|it| if slot == 2 { it.trunc() } else { it })
        }
        "Number to Int" => of("number").map(f64::trunc),
        "CR Math Operation" | "TextToNumber" | "StringToNumber" | "NumberScaler" => None,
        "CM_IntBinaryOperation" | "CM_FloatBinaryOperation" => of("a").and_then(|a| {
            let (b, operation) = (of("b")?, node.inputs.get("op")?.as_str()?);
            let is_whole = node.class.starts_with("CM_Int");
            let result = Formula::Operation(operation).compute(&mut |name| Some(if name == "a" { a } else { b }))?;
            Some(if is_whole { result.floor() } else { result })
        }),
        "CM_IntUnaryOperation" => of("a").and_then(|a| match node.inputs.get("op")?.as_str()? {
            "Inc" => Some(a + 1.0),
            "Dec" => Some(a - 1.0),
            "Abs" => Some(a.abs()),
            _ => None,
        }),
        "CM_FloatToInt" => of("a").map(f64::trunc),
        // They draw a number, whatever their seed.
        "Bjornulf_GlobalSeedManager" | "PrimereFastSeed" | "RandomGeneratorForList //Inspire" => None,
        "ImpactMinMax" => of("a").and_then(|a| {
            let (b, is_max) = (of("b")?, of("mode")? != 0.0);
            Some(if is_max { a.max(b) } else { a.min(b) })
        }),
        "CR Integer Multiple" => of("integer").and_then(|it| Some((it * of("multiple")?).trunc())),
        "CR Value" => of("value").map(|it| if slot == 1 { it.trunc() } else { it }),
        "CR Clamp Value" => of("a").and_then(|it| Some(it.max(of("range_min")?).min(of("range_max")?))),
        "CR Float To Integer" => of("_float").map(f64::trunc),
        "CR Index Increment" => of(if slot == 0 { "index" } else { "interval" })
            .and_then(|it| if slot == 0 { Some(it + of("interval")?) } else { Some(it) }),
        "Number Operation" => of("number_a").and_then(|a| {
            let (b, operation) = (of("number_b")?, node.inputs.get("operation")?.as_str()?);
            Formula::Operation(operation).compute(&mut |name| Some(if name == "a" { a } else { b }))
        }),
        _ => return None,
    };
    Some(Output::of(result.filter(|it| it.is_finite())))
}

/// Computes the expression in an input.
fn formula(node: &Node, input: &str, of: &mut dyn FnMut(&str) -> Option<f64>) -> Option<f64> {
    Formula::Expression(node.inputs.get(input)?.as_str()?).compute(of)
}

/// Returns a text, or a number as one.
fn text(get: Get<'_>, name: &str) -> Option<String> {
    json::plain(&get(name)?)
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(on) => Some(f64::from(u8::from(*on))),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns whether a value counts as true.
pub(super) fn is_true(value: &Value) -> Option<bool> {
    match value {
        Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
        value => as_number(value).map(|number| number != 0.0),
    }
}

fn pattern(patterns: &Patterns, get: Get<'_>, name: &str, ignores_case: bool) -> Option<Regex> {
    let mut is = |name: &str| get(name) == Some(Value::Bool(true));
    let flags = Flags { ignores_case, multiline: is("multiline"), dotall: is("dotall") };
    patterns.compile(&text(get, name)?, flags)
}

fn extracted(patterns: &Patterns, get: Get<'_>) -> Option<String> {
    let ignores_case = get("case_insensitive") == Some(Value::Bool(true));
    let (of, pattern) = (text(get, "string")?, pattern(patterns, get, "regex_pattern", ignores_case)?);
    match text(get, "mode")?.as_str() {
        "First Match" => Some(pattern.find(&of).map_or("", |found| found.as_str()).to_owned()),
        "All Matches" => Some(pattern.find_iter(&of).map(|found| found.as_str()).collect::<Vec<_>>().join("\n")),
        "First Group" => {
            let group = usize::try_from(get("group_index")?.as_u64()?).ok()?;
            Some(pattern.captures(&of).and_then(|found| found.get(group)).map_or("", |it| it.as_str()).to_owned())
        }
        _ => None,
    }
}

/// Replaces a pattern, whose replacement refers to groups as in Python: `\1`.
fn replaced_by_pattern(patterns: &Patterns, get: Get<'_>) -> Option<String> {
    let of = text(get, "text")?;
    let pattern = pattern(patterns, get, "find", false)?;
    let by = text(get, "replace")?.replace('$', "$$");
    let by = patterns.compile(r"\\([0-9])", Flags::default())?.replace_all(&by, "$${$1}").into_owned();
    // A group may be as long as the text.
    let groups = by.matches("${").count().saturating_mul(of.len());
    let length = by.len().saturating_add(groups);
    replaced_matches(&of, &pattern, by.as_str(), length, 0).filter(|_| !by.contains('\\'))
}

/// Returns a part of a text by the places of its letters, which count from the end if they are negative.
fn substring(get: Get<'_>) -> Option<String> {
    let of: Vec<char> = text(get, "string")?.chars().collect();
    let mut place = |name: &str| {
        let place = get(name)?.as_i64()?;
        let from_end = usize::try_from(place.unsigned_abs()).ok()?;
        Some(if place < 0 { of.len().saturating_sub(from_end) } else { from_end.min(of.len()) })
    };
    let (start, end) = (place("start")?, place("end")?);
    Some(of.get(start..end).unwrap_or_default().iter().collect())
}

fn recased(of: &str, mode: &str) -> Option<String> {
    match mode.to_ascii_lowercase().as_str() {
        "uppercase" => Some(of.to_uppercase()),
        "lowercase" => Some(of.to_lowercase()),
        "trim" => Some(of.trim().to_owned()),
        "remove_spaces" => Some(of.replace(' ', "")),
        _ => None,
    }
}

fn without_comments(of: &str) -> String {
    of.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
}

fn line_of(get: Get<'_>) -> Option<String> {
    let lines = text(get, "multiline_text").filter(|_| text(get, "mode").as_deref() == Some("index"))?;
    lines.lines().nth(usize::try_from(get("index")?.as_u64()?).ok()?).map(str::to_owned)
}

/// Returns the selected line of a list, or the selected block; a block begins with a `#`.
fn selected(get: Get<'_>) -> Option<String> {
    let (of, select) = (text(get, "strings")?, usize::try_from(get("select")?.as_u64()?).ok()?);
    let rows: Vec<String> = if get("multiline") == Some(Value::Bool(true)) {
        let mut blocks: Vec<String> = Vec::new();
        for line in of.lines() {
            match (line.strip_prefix('#'), blocks.last_mut()) {
                (None, Some(block)) => {
                    block.push('\n');
                    block.push_str(line);
                }
                (start, _) => blocks.push(start.unwrap_or(line).to_owned()),
            }
        }
        blocks
    } else {
        of.lines().map(str::to_owned).collect()
    };
    rows.get(select.checked_rem(rows.len())?).cloned()
}

/// Joins the texts of boxes that are not empty.
fn boxes(get: Get<'_>, names: &[&str]) -> Option<String> {
    let delimiter = text(get, "delimiter").unwrap_or_default();
    let delimiter = if delimiter == "\\n" { "\n" } else { delimiter.as_str() };
    let texts: Option<Vec<String>> = names.iter().map(|name| Some(text(get, name).unwrap_or_default())).collect();
    let texts: Vec<String> = texts?.into_iter().filter(|text| !["", "undefined"].contains(&text.as_str())).collect();
    Some(texts.join(delimiter))
}

/// Returns a prompt with the words that trigger its LoRAs before it.
fn with_triggers(node: &Node, get: Get<'_>) -> Option<String> {
    let mut names: Vec<&String> = node.inputs.keys().filter(|name| name.starts_with("trigger_words")).collect();
    names.sort();
    let parts: Option<Vec<String>> =
        names.into_iter().map(String::as_str).chain(["text"]).map(|name| text(get, name)).collect();
    Some(parts?.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join(", "))
}

/// Returns the words of a list that are switched on, with their weights.
fn toggled(node: &Node) -> Option<String> {
    let list = node.inputs.get("toggle_trigger_words")?;
    let words = list.get("__value__").unwrap_or(list).as_array()?;
    let weighs = node.inputs.get("allow_strength_adjustment") == Some(&Value::Bool(true));
    let word = |word: &Value| {
        let text = word.get("text")?.as_str()?;
        let weight = word.get("strength").and_then(Value::as_f64).filter(|_| weighs);
        Some(weight.map_or_else(|| text.to_owned(), |weight| format!("({text}:{weight:.2})")))
    };
    let active = words.iter().filter(|word| word.get("active") == Some(&Value::Bool(true)));
    Some(active.filter_map(word).collect::<Vec<_>>().join(", "))
}

/// Fills in a template with inputs by their names: `{animal} in the snow`.
fn templated(node: &Node, get: Get<'_>) -> Option<String> {
    let mut filled = text(get, "template")?;
    for name in node.inputs.keys().filter(|name| name.as_str() != "template") {
        let mark = format!("{{{name}}}");
        if filled.contains(&mark) {
            filled = replaced(&filled, &mark, &text(get, name)?)?;
        }
    }
    Some(filled)
}
