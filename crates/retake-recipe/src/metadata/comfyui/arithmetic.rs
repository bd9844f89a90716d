//! Nodes that compute a number from others: an expression with named variables, choices and comparisons, or one operation
//! on two numbers.
//!
//! What cannot be computed from the file is unknown: a part of an expression is not its result.

use serde_json::Value;

use super::graph::Node;

/// The maximum length of an expression; real ones have a line.
const MAX_EXPRESSION_BYTES: usize = 500;
/// The maximum depth of an expression.
const MAX_DEPTH: usize = 32;

/// What a node computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formula<'a> {
    /// An expression such as `a * 2`.
    Expression(&'a str),
    /// An operation on the inputs `a` and `b`: `add`.
    Operation(&'a str),
    /// Something of `a` and `b` that is not in the file.
    Unknown,
}

impl<'a> Formula<'a> {
    /// Returns what a node computes; `None` if it does not compute anything.
    pub(super) fn of(node: &'a Node) -> Option<Formula<'a>> {
        let text = |name: &str| node.inputs.get(name).and_then(Value::as_str);
        let calculates = || node.class.to_ascii_lowercase().contains("math");
        let expression = text("expression")
            .or_else(|| text("value").filter(|_| calculates()))
            .or_else(|| text("text").filter(|_| text("output_type") == Some("FORMULA")));
        if let Some(expression) = expression {
            return Some(Formula::Expression(expression));
        }
        // How many steps leave this many at this strength.
        if node.has("desired_steps") && node.has("strength_percent") {
            return Some(Formula::Expression("round(desired_steps / (strength_percent / 100))"));
        }
        if !(node.has("a") && node.has("b")) {
            return None;
        }
        let operation = ["operation", "op", "operator"].iter().find_map(|name| text(name));
        Some(operation.map_or(Formula::Unknown, Formula::Operation))
    }

    /// Computes the result, given the values of variables.
    pub(super) fn compute(self, variable: &mut dyn FnMut(&str) -> Option<f64>) -> Option<f64> {
        let result = match self {
            Formula::Expression(text) if text.len() <= MAX_EXPRESSION_BYTES => {
                let mut parser = Parser { rest: text, variable, depth: 0 };
                let result = parser.choice()?;
                parser.rest.trim().is_empty().then_some(result)?
            }
            Formula::Operation(name) => {
                let (a, b) = (variable("a")?, variable("b")?);
                match name.to_ascii_lowercase().as_str() {
                    "add" | "addition" | "+" => a + b,
                    "sub" | "subtract" | "subtraction" | "-" => a - b,
                    "mul" | "multiply" | "multiplication" | "*" => a * b,
                    "div" | "divide" | "division" | "/" => a / b,
                    "mod" | "modulo" | "%" => modulo(a, b),
                    "pow" | "power" | "**" => a.powf(b),
                    "min" => a.min(b),
                    "max" => a.max(b),
                    _ => return None,
                }
            }
            Formula::Expression(_) | Formula::Unknown => return None,
        };
        result.is_finite().then_some(result)
    }
}

/// Returns the remainder with the sign of the divisor, as in Python.
fn modulo(a: f64, b: f64) -> f64 {
    a - b * (a / b).floor()
}

/// Applies an operation to two numbers; the result of an unknown one is unknown, which `min` and others forget.
fn known(a: f64, b: f64, apply: impl Fn(f64, f64) -> f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { apply(a, b) }
}

/// Computes an expression in the syntax of Python while reading it. An unknown variable is not a number, and neither is
/// what depends on it: a branch that is not chosen may be unknown.
struct Parser<'a, 'v> {
    rest: &'a str,
    variable: &'v mut dyn FnMut(&str) -> Option<f64>,
    depth: usize,
}

impl<'a> Parser<'a, '_> {
    /// Takes a token, unless it is the beginning of a longer one.
    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let is_longer = ["**", "//", "<=", ">="].iter().any(|longer| *longer != token && self.rest.starts_with(longer));
        match self.rest.strip_prefix(token).filter(|_| !is_longer) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes a word, unless it is the beginning of a longer one.
    fn take_word(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(word);
        let rest = rest.filter(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads `a if condition else b`, or just a value.
    fn choice(&mut self) -> Option<f64> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut result = self.comparison()?;
        if self.take_word("if") {
            let condition = self.comparison()?;
            if !self.take_word("else") {
                return None;
            }
            let other = self.choice()?;
            result = match condition {
                unknown if unknown.is_nan() => f64::NAN,
                0.0 => other,
                _ => result,
            };
        }
        self.depth -= 1;
        Some(result)
    }

    fn comparison(&mut self) -> Option<f64> {
        type Comparison = (&'static str, fn(f64, f64) -> bool);
        const COMPARISONS: [Comparison; 6] = [
            ("==", |a, b| a == b),
            ("!=", |a, b| a != b),
            ("<=", |a, b| a <= b),
            (">=", |a, b| a >= b),
            ("<", |a, b| a < b),
            (">", |a, b| a > b),
        ];
        let result = self.sum()?;
        match COMPARISONS.into_iter().find(|(token, _)| self.take(token)) {
            Some((_, compare)) => Some(known(result, self.sum()?, |a, b| f64::from(u8::from(compare(a, b))))),
            None => Some(result),
        }
    }

    fn sum(&mut self) -> Option<f64> {
        let mut result = self.product()?;
        loop {
            if self.take("+") {
                result += self.product()?;
            } else if self.take("-") {
                result -= self.product()?;
            } else {
                return Some(result);
            }
        }
    }

    fn product(&mut self) -> Option<f64> {
        let mut result = self.signed()?;
        loop {
            if self.take("*") {
                result *= self.signed()?;
            } else if self.take("//") {
                result = (result / self.signed()?).floor();
            } else if self.take("/") {
                result /= self.signed()?;
            } else if self.take("%") {
                result = modulo(result, self.signed()?);
            } else {
                return Some(result);
            }
        }
    }

    fn signed(&mut self) -> Option<f64> {
        let mut sign = 1.0;
        while self.take("-") {
            sign = -sign;
        }
        let base = self.operand()?;
        // Some packs write powers like this.
        let power =
            if self.take("**") || self.take("^") { self.nested(Parser::signed)? } else { return Some(sign * base) };
        Some(sign * known(base, power, f64::powf))
    }

    fn operand(&mut self) -> Option<f64> {
        if self.take("(") {
            let result = self.choice()?;
            return self.take(")").then_some(result);
        }
        if self.take("[") {
            return self.element();
        }
        // Some packs mark variables: `%aux%`.
        let is_marked = self.take("%");
        let word = self.word();
        if is_marked {
            return (self.take("%") && !word.is_empty()).then(|| self.named(&word.to_lowercase()));
        }
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return word.parse().ok();
        }
        if !self.take("(") {
            return (!word.is_empty()).then(|| self.named(word));
        }
        let values = self.values(")")?;
        match (word, values.as_slice()) {
            ("min", values) => values.iter().copied().reduce(|a, b| known(a, b, f64::min)),
            ("max", values) => values.iter().copied().reduce(|a, b| known(a, b, f64::max)),
            ("round", [value]) => Some(value.round_ties_even()),
            ("floor", [value]) => Some(value.floor()),
            ("ceil", [value]) => Some(value.ceil()),
            ("int", [value]) => Some(value.trunc()),
            ("float", [value]) => Some(*value),
            ("abs", [value]) => Some(value.abs()),
            _ => None,
        }
    }

    /// Reads the rest of `[a, b][place]`.
    fn element(&mut self) -> Option<f64> {
        let values = self.values("]")?;
        if !self.take("[") {
            return None;
        }
        let place = self.choice()?;
        if !self.take("]") {
            return None;
        }
        let matching = (0_u32..).zip(values).find(|(index, _)| f64::from(*index) == place);
        Some(matching.map_or(f64::NAN, |(_, value)| value))
    }

    /// Reads values with commas between them, up to the end of their list.
    fn values(&mut self, end: &str) -> Option<Vec<f64>> {
        let mut values = vec![self.choice()?];
        while self.take(",") {
            values.push(self.choice()?);
        }
        self.take(end).then_some(values)
    }

    fn named(&mut self, name: &str) -> f64 {
        (self.variable)(name).unwrap_or(f64::NAN)
    }

    fn nested(&mut self, parse: impl Fn(&mut Self) -> Option<f64>) -> Option<f64> {
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH { None } else { parse(self) };
        self.depth -= 1;
        result
    }

    /// Takes a number or a name.
    fn word(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(expression: &str) -> Option<f64> {
        Formula::Expression(expression).compute(&mut |name| match name {
            "a" => Some(0.25),
            "b" => Some(17.0),
            _ => None,
        })
    }

    #[test]
    fn expressions_have_the_values_they_have_in_python() {
        for (expression, value) in [
            ("a*25+(1-a)*8", 12.25),
            ("min(a, b)", 0.25),
            ("b // 2 + b % 5", 10.0),
            ("-b // 2", -9.0),
            ("-b % 5", 3.0),
            ("2 ** 3 ** 2", 512.0),
            ("-2 ** 2", -4.0),
            ("max(5, round(a * 24)) + (5 - (max(5, round(a * 24)) % 17)) % 17", 22.0),
            (" a * ( -1 )\n", -0.25),
            ("10 - 4 - 3", 3.0),
            ("8 / 2 / 2", 2.0),
            ("[%a%, %B%][%b% > 5]", 17.0),
            ("[a, unknown][0]", 0.25),
            ("b if a < 1 else unknown", 17.0),
            ("1 if b == 16 else 2 if b != 17 else 3", 3.0),
            ("a ^ 2", 0.0625),
        ] {
            assert_eq!(result(expression), Some(value), "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_computed_is_unknown() {
        let deep = format!("{}1{}", "(".repeat(200), ")".repeat(200));
        let powers = "2**".repeat(100) + "2";
        for expression in [
            "",
            "c",
            "a +",
            "a b",
            "1/0",
            "sin(a)",
            "(a",
            "Node.steps",
            "é",
            "1e400",
            "[a, b]",
            "[a, b][2]",
            "[a][c]",
            "min(a, c)",
            "a if c else b",
            "c ** 0",
            "%a",
            &deep,
            &powers,
        ] {
            assert_eq!(result(expression), None, "{expression}");
        }
    }
}
