//! Sweeps: every combination of their values is substituted into the plan's text.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::PlanError;
use super::file::SweepPart;
use super::text::Text;

/// One value of each sweep, by the sweep's name.
pub(super) type Values = BTreeMap<String, String>;

/// The sweeps of a plan, read before their values are filled in.
#[derive(Deserialize)]
pub(super) struct Outline {
    #[serde(default)]
    all: SweepPartList,
    #[serde(default, rename = "case")]
    cases: Vec<SweepPartList>,
}

#[derive(Default, Deserialize)]
struct SweepPartList {
    sweep: Option<Vec<SweepPart>>,
}

impl Outline {
    /// Rejects sweeps without values, and duplicate names and values.
    pub(super) fn check(&self, place: &Text<'_>) -> Result<(), PlanError> {
        for swept in self.cases.iter().chain([&self.all]) {
            let sweeps = swept.sweep.as_deref().unwrap_or_default();
            place.reject_duplicates("the sweep", sweeps.iter().map(|sweep| &sweep.name))?;
            for SweepPart { name, values } in sweeps {
                if values.as_ref().is_empty() {
                    let what = format!(
                        "the sweep `{}` has no values; write at least one, or leave the sweep out",
                        name.as_ref()
                    );
                    return Err(place.error(values.span().start, what));
                }
                place.reject_duplicates("the value", values.as_ref())?;
            }
        }
        Ok(())
    }

    /// Returns the combinations of sweep values of each case, or of the plan if it has no cases. A case with an empty sweep has none.
    pub(super) fn combinations(&self) -> Vec<Vec<Values>> {
        let usual = self.all.sweep.as_deref().unwrap_or_default();
        if self.cases.is_empty() {
            return vec![combinations(usual)];
        }
        self.cases.iter().map(|case| combinations(case.sweep.as_deref().unwrap_or(usual))).collect()
    }
}

/// Returns every combination of one value from each sweep: one empty combination without sweeps.
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

/// Replaces each `{name}` by the sweep's value. A string that consists of such a name becomes a number if the value is one: `fps = "{fps}"`. Line
/// numbers do not change.
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
