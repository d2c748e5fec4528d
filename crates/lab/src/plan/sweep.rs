//! Sweeps: every combination of their values makes a text of its own out of the plan's.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::PlanError;
use super::file::SweepPart;
use super::text::Text;

/// A value of each sweep.
pub(super) type Values = BTreeMap<String, String>;

/// What has to be known of a plan before its values are filled in.
#[derive(Deserialize)]
pub(super) struct Outline {
    #[serde(default)]
    all: Swept,
    #[serde(default, rename = "case")]
    cases: Vec<Swept>,
}

#[derive(Default, Deserialize)]
struct Swept {
    sweep: Option<Vec<SweepPart>>,
}

impl Outline {
    /// Refuses sweeps without values, and names and values that are there twice.
    pub(super) fn check(&self, place: &Text<'_>) -> Result<(), PlanError> {
        for swept in self.cases.iter().chain([&self.all]) {
            let sweeps = swept.sweep.as_deref().unwrap_or_default();
            place.no_name_twice("the sweep", sweeps.iter().map(|sweep| &sweep.name))?;
            for SweepPart { name, values } in sweeps {
                if values.as_ref().is_empty() {
                    let what = format!(
                        "the sweep `{}` has no values; write at least one, or leave the sweep out",
                        name.as_ref()
                    );
                    return Err(place.error(values.span().start, what));
                }
                place.no_name_twice("the value", values.as_ref())?;
            }
        }
        Ok(())
    }

    /// For each case, or for the plan itself where it has none, the combinations of its sweeps' values; none where a sweep has none.
    pub(super) fn combinations(&self) -> Vec<Vec<Values>> {
        let usual = self.all.sweep.as_deref().unwrap_or_default();
        if self.cases.is_empty() {
            return vec![combinations(usual)];
        }
        self.cases.iter().map(|case| combinations(case.sweep.as_deref().unwrap_or(usual))).collect()
    }
}

/// Every combination of one value from each sweep; one empty combination without sweeps.
fn combinations(sweeps: &[SweepPart]) -> Vec<Values> {
    let mut all = vec![Values::new()];
    for sweep in sweeps {
        let with = |values: &Values| {
            let one = |value: &Spanned<String>| {
                let named = (sweep.name.as_ref().clone(), value.as_ref().clone());
                values.clone().into_iter().chain([named]).collect()
            };
            sweep.values.as_ref().iter().map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// The plan with each `{name}` replaced by the sweep's value. A text that is nothing but such a name becomes a number where the value
/// is one: `fps = "{fps}"`. No line moves.
pub(super) fn fill_in(text: &str, values: &Values) -> String {
    let fill = |text: String, (name, value): (&String, &String)| {
        let number = value.starts_with(|letter: char| letter.is_ascii_digit()) && value.parse::<f64>().is_ok();
        let text = if number { text.replace(&format!("\"{{{name}}}\""), value) } else { text };
        text.replace(&format!("{{{name}}}"), value)
    };
    values.iter().fold(text.to_owned(), fill)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn names_become_values_and_lone_numbers_lose_their_quotes() {
        let text = "fps = \"{fps}\"\npacing = \"{pacing}\"\npath = \"rate={fps}mbit,delay={delay}\"\n";
        let filled = fill_in(text, &values(&[("fps", "30"), ("pacing", "burst"), ("delay", "5ms")]));
        assert_eq!(filled, "fps = 30\npacing = \"burst\"\npath = \"rate=30mbit,delay=5ms\"\n");
        assert_eq!(fill_in("a = \"{a}\"", &values(&[("a", "5.56")])), "a = 5.56");
        assert_eq!(fill_in("a = \"{a}\"", &values(&[("a", "nan")])), "a = \"nan\"");
    }

    #[test]
    fn sweeps_multiply_and_a_case_may_have_its_own() {
        let text = r#"
            [all]
            [[all.sweep]]
            name = "a"
            values = ["1", "2"]
            [[all.sweep]]
            name = "b"
            values = ["x", "y", "z"]
            [[case]]
            [[case]]
            [[case.sweep]]
            name = "c"
            values = ["0"]
        "#;
        let outline: Outline = toml::from_str(text).expect("an outline");
        let all = outline.combinations();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [6, 1]);
        assert_eq!((&all[0][4], &all[1][0]), (&values(&[("a", "2"), ("b", "y")]), &values(&[("c", "0")])));
        let none: Outline = toml::from_str("question = \"?\"\nseeds = 3").expect("an outline");
        assert_eq!(none.combinations(), vec![vec![Values::new()]]);
    }
}
