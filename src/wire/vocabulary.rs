//! The names of fields and commands in messages: JSON names for agents, flags for the command line.

/// The names of things in messages to a particular kind of reader.
pub trait Vocabulary {
    /// Returns the name of a field, given its JSON name. A `[]` suffix means one entry of a list.
    fn field(&self, name: &str) -> String;

    /// Returns the name of one entry of a list field, counted from 0.
    fn entry(&self, name: &str, number: usize) -> String {
        format!("{}[{number}]", self.field(name))
    }

    /// Returns how to run a command, as an imperative clause, given its name on the command line.
    fn command(&self, verb: &str) -> String;

    /// Returns how to run a command for a session or an iteration.
    fn command_for(&self, verb: &str, argument: &str) -> String {
        format!("{} for {argument}", self.command(verb))
    }
}

/// The vocabulary of JSON: field names and tools.
pub struct JsonVocabulary;

impl Vocabulary for JsonVocabulary {
    fn field(&self, name: &str) -> String {
        name.strip_suffix("[]").map_or_else(|| name.to_owned(), |list| format!("an entry of {list}"))
    }

    fn command(&self, verb: &str) -> String {
        match verb {
            "list" => "call list-sessions".to_owned(),
            "audit" => "call audit-session".to_owned(),
            "restore" => "call restore-session".to_owned(),
            // An agent asks for an image with the same tool.
            "show" => "call get-iteration without `image`".to_owned(),
            verb => format!("run `retake {verb}`"),
        }
    }
}
