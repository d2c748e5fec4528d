//! Paths in plans: serde support for the text form.

use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::read::MAX_HOPS;
use super::{PathSpec, SpecError};

impl Serialize for PathSpec {
    /// Serialized in its one-line form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PathSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathVisitor)
    }
}

struct PathVisitor;

impl<'de> Visitor<'de> for PathVisitor {
    type Value = PathSpec;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str("a path: one line such as \"rate=10mbit,delay=10ms\", or a list with one table for each hop")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PathSpec, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PathSpec, A::Error> {
        let mut hops = Vec::new();
        while let Some(part) = list.next_element::<PathSpec>()? {
            hops.extend(part.hops);
            if hops.len() > MAX_HOPS {
                return Err(A::Error::custom(SpecError::TooManyHops));
            }
        }
        Ok(PathSpec { hops })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<PathSpec, A::Error> {
        let mut pairs = Vec::new();
        while let Some((key, value)) = table.next_entry::<String, Value>()? {
            pairs.push((key, value.0));
        }
        PathSpec::from_table(&pairs).map_err(A::Error::custom)
    }
}

/// A value's text: a string, a number, or a list of these, which is equivalent to joining them with slashes.
struct Value(String);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text such as \"10mbit\", a number, or a list of them")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value(text.to_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value(number.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(Value(part)) = list.next_element()? {
            parts.push(part);
        }
        Ok(Value(parts.join("/")))
    }
}
