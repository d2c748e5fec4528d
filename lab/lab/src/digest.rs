//! A short fingerprint (FNV-1a, 64 bits): distinguishes plans and programs; not cryptographic.

use toml::{Table, Value};

/// A digest of everything that was added, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(u64);

/// Keys of a plan that do not change its runs: texts for readers, the number of seeds, and published figures.
const READER_KEYS: [&str; 4] = ["question", "notes", "seeds", "published"];
/// Keys of a case that do not change its runs.
const READER_KEYS_IN_CASE: [&str; 1] = ["about"];

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut digest = Self(0xcbf2_9ce4_8422_2325);
        digest.add(bytes);
        digest
    }

    /// Returns the digest of everything in a plan that affects its runs. Comments, layout and the order of keys do not.
    pub(crate) fn of_plan(plan: &Table) -> Self {
        let mut digest = Self::of(&[]);
        digest.add_table(
            plan,
            &|depth, key| depth == 0 && READER_KEYS.contains(&key) || depth > 0 && READER_KEYS_IN_CASE.contains(&key),
            0,
        );
        digest
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn add_text(&mut self, kind: u8, text: &str) {
        self.add(&[kind]);
        self.add(&(text.len() as u64).to_le_bytes());
        self.add(text.as_bytes());
    }

    fn add_table(&mut self, table: &Table, left_out: &dyn Fn(usize, &str) -> bool, depth: usize) {
        let mut keys: Vec<&String> = table.keys().filter(|key| !left_out(depth, key)).collect();
        keys.sort_unstable();
        self.add(b"t");
        self.add(&(keys.len() as u64).to_le_bytes());
        for key in keys {
            self.add_text(b'k', key);
            self.add_value(&table[key], left_out, depth + 1);
        }
    }

    fn add_value(&mut self, value: &Value, left_out: &dyn Fn(usize, &str) -> bool, depth: usize) {
        match value {
            Value::String(text) => self.add_text(b's', text),
            Value::Integer(number) => self.add_text(b'n', &number.to_string()),
            Value::Float(number) => self.add_text(b'n', &number.to_string()),
            Value::Boolean(whether) => self.add_text(b'b', if *whether { "true" } else { "false" }),
            Value::Datetime(moment) => self.add_text(b'd', &moment.to_string()),
            Value::Array(values) => {
                self.add(b"a");
                self.add(&(values.len() as u64).to_le_bytes());
                for value in values {
                    self.add_value(value, left_out, depth);
                }
            }
            Value::Table(table) => self.add_table(table, left_out, depth),
        }
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> u64 {
        Digest::of_plan(&text.parse().expect("a table")).value()
    }

    #[test]
    fn only_what_changes_runs_changes_a_plans_digest() {
        let plan = "question = \"Why?\"\nseeds = 3\n[all]\nduration = \"3s\"\n[[case]]\nname = \"a\"\nabout = \"b\"\nlabels = { x = \"1\" }\n";
        for same in [
            format!("# What this is about.\n{plan}"),
            plan.replace("duration = ", "duration   =  "),
            plan.replace("Why?", "How?").replace("seeds = 3", "notes = \"n\""),
            plan.replace("about = \"b\"", "about = \"c\" # more"),
            plan.replace("name = \"a\"\nabout = \"b\"", "about = \"b\"\nname = \"a\""),
        ] {
            assert_eq!(digest(&same), digest(plan), "{same}");
        }
        for other in [
            plan.replace("3s", "4s"),
            plan.replace("name = \"a\"", "name = \"b\""),
            plan.replace("x = \"1\"", "x = 1"),
            plan.replace("[[case]]", "[[all.path]]"),
            plan.replace("labels = { x = \"1\" }", "labels = { x = \"1\", y = \"\" }"),
        ] {
            assert_ne!(digest(&other), digest(plan), "{other}");
        }
    }
}
