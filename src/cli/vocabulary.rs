//! The vocabulary of the command line: flags instead of fields, commands instead of tools.

use retake_recipe::Field;

use crate::wire::Vocabulary;

/// The vocabulary of the command line.
pub(super) struct CommandLine;

impl Vocabulary for CommandLine {
    fn field(&self, name: &str) -> String {
        // A repeatable flag takes one entry at a time.
        let flag = match name.strip_suffix("[]").unwrap_or(name) {
            "prompt" | "reference" | "references" => return name.to_owned(),
            "loras.name" => return "the name of --lora".to_owned(),
            "loras.weight" => return "the weight of --lora".to_owned(),
            "cost.amount" => return "the amount of --cost".to_owned(),
            "cost.currency" => return "the currency of --cost".to_owned(),
            "nextCursor" => return "the printed cursor".to_owned(),
            "sessionId" => "session",
            "expectedIterationCount" => "expect",
            "idempotencyKey" => "key",
            "images" => "image",
            "tags" => "tag",
            "addTags" => "add-tag",
            "removeTags" => "remove-tag",
            "loras" => "lora",
            "generationTimeMs" => "generation-time-ms",
            "createdAt" => "created-at",
            "similarTo" => "similar-to",
            "minRating" => "min-rating",
            name => Field::by_key(name).map_or(name, |field| field.flag),
        };
        format!("--{flag}")
    }

    fn entry(&self, name: &str, _: usize) -> String {
        self.field(name)
    }

    fn command(&self, verb: &str) -> String {
        format!("run `retake {verb}`")
    }

    fn command_for(&self, verb: &str, argument: &str) -> String {
        // Some shells take # for the start of a pattern or a comment.
        let quote = if argument.contains('#') { "'" } else { "" };
        format!("run `retake {verb} {quote}{argument}{quote}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_flags() {
        for (field, flag) in [
            ("sessionId", "--session"),
            ("guidanceScale", "--guidance-scale"),
            ("negativePrompt", "--negative-prompt"),
            ("title", "--title"),
            ("addTags[]", "--add-tag"),
            ("loras.weight", "the weight of --lora"),
            ("nextCursor", "the printed cursor"),
        ] {
            assert_eq!(CommandLine.field(field), flag);
        }
    }
}
