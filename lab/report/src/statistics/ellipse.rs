//! The ellipse that summarises a cloud of points.

/// One standard deviation of a cloud of points in every direction: the contour of the normal distribution with the points'
/// mean and covariance at Mahalanobis distance 1 (39 % of a normal cloud lie within). Throughput-delay plots of rate
/// controllers draw it since K. Winstein, H. Balakrishnan: TCP ex Machina, SIGCOMM 2013.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ellipse {
    pub x: f64,
    pub y: f64,
    pub x_deviation: f64,
    pub y_deviation: f64,
    /// Pearson's, -1 to 1; 0 where one deviation is 0.
    pub correlation: f64,
}

impl Ellipse {
    /// `None` for fewer than two points, or where a coordinate is not finite.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let (xs, ys): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        let (x, y) = (super::mean(&xs)?, super::mean(&ys)?);
        let (x_deviation, y_deviation) = (super::variance(&xs)?.sqrt(), super::variance(&ys)?.sqrt());
        let covariance = points.iter().map(|(px, py)| (px - x) * (py - y)).sum::<f64>() / (points.len() - 1) as f64;
        let scale = x_deviation * y_deviation;
        let correlation = if scale > 0.0 { (covariance / scale).clamp(-1.0, 1.0) } else { 0.0 };
        Some(Self { x, y, x_deviation, y_deviation, correlation })
    }

    /// The outline, `count` points anticlockwise from the right; the first is not repeated.
    pub fn outline(&self, count: usize) -> Vec<(f64, f64)> {
        // Cholesky's factor of the covariance maps the unit circle onto the ellipse.
        let across = (1.0 - self.correlation * self.correlation).max(0.0).sqrt();
        (0..count)
            .map(|index| {
                let (sin, cos) = (std::f64::consts::TAU * index as f64 / count as f64).sin_cos();
                let along_y = self.correlation * cos + across * sin;
                (self.x + self.x_deviation * cos, self.y + self.y_deviation * along_y)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_and_correlation() {
        // numpy: std(ddof=1) = 1.2909944, 2.5819889 x 0.8 ...; corrcoef = 0.8.
        let found = Ellipse::of(&[(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0)]).unwrap();
        assert!((found.x_deviation - 1.290_994_448_735_805_6).abs() < 1e-12);
        assert!((found.correlation - 0.6).abs() < 1e-12);
    }

    #[test]
    fn every_point_of_the_outline_is_one_deviation_away() {
        let ellipse = Ellipse { x: 5.0, y: -2.0, x_deviation: 3.0, y_deviation: 0.5, correlation: -0.7 };
        for (x, y) in ellipse.outline(36) {
            let (u, v) = ((x - 5.0) / 3.0, (y + 2.0) / 0.5);
            let squared = (u * u - 2.0 * -0.7 * u * v + v * v) / (1.0 - 0.49);
            assert!((squared - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_line_has_a_flat_ellipse() {
        let found = Ellipse::of(&[(0.0, 1.0), (1.0, 1.0)]).unwrap();
        assert!(found.outline(8).iter().all(|(_, y)| (y - 1.0).abs() < 1e-12));
        assert_eq!(Ellipse::of(&[(0.0, 1.0)]), None);
    }
}
