//! Letters that tell which groups differ.
//!
//! Insert-and-absorb: H. Piepho, An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons, Journal of
//! Computational and Graphical Statistics 13(2), 2004. Departures: none; letters are given in the groups' order.

/// One string per group: two groups share a letter exactly where `differ` says they do not differ. `differ` is asked with the
/// smaller index first.
pub fn letters(groups: usize, differ: impl Fn(usize, usize) -> bool) -> Vec<String> {
    let mut columns: Vec<Vec<bool>> = vec![vec![true; groups]];
    for first in 0..groups {
        for second in first + 1..groups {
            if differ(first, second) {
                columns = absorb(split(columns, first, second));
            }
        }
    }
    // The letter a starts at the first group, b at the first group without a or later, and so on.
    columns.sort_by_key(|column| column.iter().map(|member| !member).collect::<Vec<_>>());
    let mut found = vec![String::new(); groups];
    for (index, column) in columns.iter().enumerate() {
        for (group, name) in found.iter_mut().enumerate() {
            if column[group] {
                name.push_str(&letter(index));
            }
        }
    }
    found
}

/// Every column that holds both becomes two, each without one of them.
fn split(columns: Vec<Vec<bool>>, first: usize, second: usize) -> Vec<Vec<bool>> {
    let mut result = Vec::with_capacity(columns.len() + 1);
    for column in columns {
        if column[first] && column[second] {
            for left_out in [first, second] {
                let mut part = column.clone();
                part[left_out] = false;
                result.push(part);
            }
        } else {
            result.push(column);
        }
    }
    result
}

/// Removes redundant columns.
fn absorb(columns: Vec<Vec<bool>>) -> Vec<Vec<bool>> {
    let within = |inner: &[bool], outer: &[bool]| inner.iter().zip(outer).all(|(i, o)| !*i || *o);
    let mut kept: Vec<Vec<bool>> = Vec::with_capacity(columns.len());
    for column in columns {
        if kept.iter().any(|other| within(&column, other)) {
            continue;
        }
        kept.retain(|other| !within(other, &column));
        kept.push(column);
    }
    kept
}

/// a to z, then a1, b1, ...
fn letter(index: usize) -> String {
    let name = char::from(b'a' + (index % 26) as u8);
    if index < 26 { name.to_string() } else { format!("{name}{}", index / 26) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_cases() {
        assert_eq!(letters(3, |_, _| false), ["a", "a", "a"]);
        assert_eq!(letters(3, |_, _| true), ["a", "b", "c"]);
        assert_eq!(letters(3, |a, b| (a, b) == (0, 2)), ["a", "ab", "b"]);
        // Piepho's example: only T1 differs from T7 and T8, T2 from T3, T4 and so on gives overlapping groups.
        assert_eq!(letters(4, |a, b| (a, b) == (0, 1) || (a, b) == (2, 3)), ["ab", "cd", "ac", "bd"]);
        assert!(letters(0, |_, _| true).is_empty());
    }

    proptest! {
        #[test]
        fn a_letter_is_shared_where_groups_do_not_differ(bits in prop::collection::vec(any::<bool>(), 36)) {
            let differ = |a: usize, b: usize| bits[a * 6 + b];
            let found = letters(6, differ);
            for first in 0..6 {
                for second in first + 1..6 {
                    let shared = found[first].chars().any(|letter| found[second].contains(letter));
                    prop_assert_eq!(shared, !differ(first, second), "{} {}: {:?}", first, second, &found);
                }
            }
        }
    }
}
