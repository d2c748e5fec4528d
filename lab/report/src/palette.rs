//! Assigns colours to names.

/// Colours before dashes and shapes tell names apart.
pub(crate) const COLOURS: usize = 8;

/// Names in families. Names that appear in one chart are of one family, which makes them differ; in every family the first
/// name takes the first colour, which keeps colours few and dashes rare. A name keeps its place through the whole document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette {
    families: Vec<Vec<String>>,
}

impl Palette {
    /// Tells that `names` stand side by side.
    pub fn add<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let mut joined: Vec<String> = Vec::new();
        let names: Vec<&str> = names.collect();
        let (touched, rest) = std::mem::take(&mut self.families)
            .into_iter()
            .partition::<Vec<_>, _>(|family| family.iter().any(|known| names.contains(&known.as_str())));
        self.families = rest;
        // The older family's names come first and keep their places.
        for name in touched.into_iter().flatten().chain(names.iter().map(|name| (*name).to_owned())) {
            if !joined.contains(&name) {
                joined.push(name);
            }
        }
        if !joined.is_empty() {
            self.families.push(joined);
        }
    }

    /// Classes that set colour (`c0` to `c7`) and dash (`d0` to `d2`). Unknown names look like the first.
    pub fn class(&self, name: &str) -> String {
        let place = self.place(name);
        format!("c{} d{}", place % COLOURS, place / COLOURS % 3)
    }

    /// Returns the index of the point shape, 0 to 4.
    pub fn shape(&self, name: &str) -> usize {
        // Neighbours in the palette differ in shape as well as in colour.
        self.place(name) % 5
    }

    fn place(&self, name: &str) -> usize {
        self.families.iter().find_map(|family| family.iter().position(|known| known == name)).unwrap_or(0)
    }
}

/// The outline of a point of `shape` around the origin, as an SVG path of about `size` across.
pub(crate) fn outline(shape: usize, size: f64) -> String {
    let r = size / 2.0;
    let c = crate::text::coordinate;
    match shape {
        0 => format!("M{} 0A{2} {2} 0 1 1 {1} 0A{2} {2} 0 1 1 {0} 0Z", c(-r), c(r), c(r)),
        1 => format!("M{0} {0}H{1}V{1}H{0}Z", c(-r * 0.9), c(r * 0.9)),
        2 => format!("M0 {}L{} {}H{}Z", c(-r * 1.15), c(r * 1.1), c(r * 0.8), c(-r * 1.1)),
        3 => format!("M0 {0}L{1} 0L0 {1}L{0} 0Z", c(-r * 1.25), c(r * 1.25)),
        _ => format!("M0 {}L{} {}H{}Z", c(r * 1.15), c(r * 1.1), c(-r * 0.8), c(-r * 1.1)),
    }
}

#[cfg(test)]
mod tests;
