//! The seek curve of Lee and Katz (An Analytic Performance Model of Disk Arrays, SIGMETRICS 1993):
//! `t(x) = a + b·√x + c·x` with `x` the distance as a share of the full stroke, through the three published points.
//! The average is that over two independent uniform places, whose distance has the density `2(1 - x)`; with
//! `E[√x] = 8/15` and `E[x] = 1/3` this gives `b = 5(average - a) - 5/3 (full - a)` and `c = full - a - b`.

/// Track to track, average and full stroke, in ns.
#[derive(Debug, Clone, Copy)]
pub struct SeekCurve {
    a_ns: f64,
    b_ns: f64,
    c_ns: f64,
    /// 1 / full stroke in cylinders.
    per_cylinder: f64,
}

impl SeekCurve {
    /// An error where no rising curve goes through the points.
    pub fn new(track_ns: u64, average_ns: u64, full_ns: u64, cylinders: u64) -> Result<SeekCurve, String> {
        let (a, average, full) = (track_ns as f64, average_ns as f64, full_ns as f64);
        let b = 5.0 * (average - a) - 5.0 / 3.0 * (full - a);
        let c = full - a - b;
        let ms = |ns: f64| (ns / 1e4).round() / 100.0;
        if average < a || full < average {
            return Err(format!(
                "seeks of {} ms (track), {} ms (average) and {} ms (full stroke): each must be longer than the one before",
                ms(a),
                ms(average),
                ms(full)
            ));
        }
        // The slope b/(2√x) + c must be positive up to x = 1.
        if b < 0.0 || b / 2.0 + c < 0.0 {
            return Err(format!(
                "no rising curve goes through seeks of {} ms (track), {} ms (average) and {} ms (full stroke); a full \
                 stroke of about {} ms would fit",
                ms(a),
                ms(average),
                ms(full),
                ms(a + 2.2 * (average - a))
            ));
        }
        Ok(SeekCurve { a_ns: a, b_ns: b, c_ns: c, per_cylinder: 1.0 / (cylinders.max(2) - 1) as f64 })
    }

    /// Square roots are exact in IEEE 754, so this is the same on every machine.
    #[inline]
    pub fn ns(&self, distance_cylinders: u64) -> u64 {
        if distance_cylinders == 0 {
            return 0;
        }
        let x = distance_cylinders as f64 * self.per_cylinder;
        (self.a_ns + self.b_ns * x.sqrt() + self.c_ns * x) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_goes_through_the_published_points() {
        let cylinders = 50_001;
        let curve = SeekCurve::new(2_000_000, 8_900_000, 21_000_000, cylinders).expect("a rising curve");
        assert_eq!(curve.ns(0), 0);
        assert!(curve.ns(1).abs_diff(2_000_000) < 20_000, "{}", curve.ns(1));
        assert!(curve.ns(cylinders - 1).abs_diff(21_000_000) < 1_000);
        // The mean over all pairs of places.
        let (mut sum, mut weight) = (0.0, 0.0);
        for d in 1..cylinders {
            let pairs = (cylinders - d) as f64;
            sum += pairs * curve.ns(d) as f64;
            weight += pairs;
        }
        assert!((sum / weight - 8_900_000.0).abs() < 20_000.0, "{}", sum / weight);
    }

    #[test]
    fn points_without_a_rising_curve_are_refused() {
        let error = SeekCurve::new(2_000_000, 8_000_000, 40_000_000, 1_000).expect_err("far too long a full stroke");
        assert!(error.contains("full stroke of about"), "{error}");
        let error =
            SeekCurve::new(30_000_000, 8_900_000, 21_000_000, 1_000).expect_err("a track farther than the average");
        assert!(error.contains("each must be longer"), "{error}");
    }
}
