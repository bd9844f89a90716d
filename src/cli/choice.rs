//! Enums of the JSON surface as flag values, so that each has one definition and one spelling.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::wire::schema;

/// Returns a parser for the values of an enum, spelt as in JSON.
pub(super) fn choice<T>() -> impl TypedValueParser<Value = T>
where
    T: Clone + DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    PossibleValuesParser::new(schema::names::<T>().into_iter().map(PossibleValue::new))
        .try_map(|name| serde_json::from_value::<T>(Value::String(name)))
}

#[cfg(test)]
mod tests {
    use clap::builder::TypedValueParser;

    use super::*;
    use crate::images::Render;
    use crate::model::{OutcomeStatus, Status};

    #[test]
    fn every_value_has_the_spelling_of_json() {
        assert_eq!(schema::names::<Status>(), ["all", "active", "archived"]);
        assert_eq!(schema::names::<Render>(), ["sideBySide", "heatmap", "sheet", "none"]);
        let command = clap::Command::new("retake");
        let parsed = choice::<OutcomeStatus>().parse_ref(&command, None, "refused".as_ref()).unwrap();
        assert_eq!(parsed, OutcomeStatus::Refused);
        assert!(choice::<OutcomeStatus>().parse_ref(&command, None, "done".as_ref()).is_err());
    }
}
