//! What fields and commands are called where the reader of a message is: names in JSON, flags at the command line.

/// What things are called where the reader of a message is.
pub trait Vocabulary {
    /// Returns what a field is called, given its name in JSON. With `[]` after the name, one entry of a list is meant.
    fn field(&self, name: &str) -> String;

    /// Returns what one entry of a field with a list is called, counted from 0.
    fn entry(&self, name: &str, number: usize) -> String {
        format!("{}[{number}]", self.field(name))
    }

    /// Returns how to ask for a verb, as an imperative clause, given its name at the command line.
    fn command(&self, verb: &str) -> String;
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
            "show" => "call get-iteration".to_owned(),
            verb => format!("run `retake {verb}`"),
        }
    }
}
