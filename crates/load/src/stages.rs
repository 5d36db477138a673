//! A value that changes during the run: an arrival rate, or a number of virtual clients. It consists of
//! stages, each linear from one value to another, so that steps and ramps are phases of one run.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The length of the stage.
    pub length: Duration,
    /// The value at its beginning.
    pub from: f64,
    /// The value at its end; equal to `from` in a constant stage.
    pub to: f64,
}

impl Stage {
    /// A stage with a constant value.
    pub fn constant(length: Duration, value: f64) -> Stage {
        Stage { length, from: value, to: value }
    }

    /// The integral of the value over the stage: for a rate, the number of arrivals.
    fn area(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.length.as_secs_f64()
    }

    /// The time in the stage, in seconds, at which the integral reaches this area.
    fn time_of_area(&self, area: f64) -> f64 {
        let slope = (self.to - self.from) / self.length.as_secs_f64();
        let root = (self.from * self.from + 2.0 * slope * area).max(0.0).sqrt();
        // This form of the quadratic formula is numerically stable, and also valid without a slope.
        let sum = self.from + root;
        if sum > 0.0 { 2.0 * area / sum } else { 0.0 }
    }
}

/// Consecutive stages, from the run's start.
#[derive(Debug, Clone)]
pub(crate) struct StageCurve {
    stages: Vec<PlacedStage>,
}

#[derive(Debug, Clone, Copy)]
struct PlacedStage {
    stage: Stage,
    start_s: f64,
    area_before: f64,
}

impl StageCurve {
    pub(crate) fn new(stages: &[Stage]) -> StageCurve {
        let (mut start_s, mut area_before) = (0.0, 0.0);
        let place = |stage: &Stage| {
            let placed = PlacedStage { stage: *stage, start_s, area_before };
            start_s += stage.length.as_secs_f64();
            area_before += stage.area();
            placed
        };
        StageCurve { stages: stages.iter().map(place).collect() }
    }

    /// The time at which the integral reaches `area`, in seconds from the start; `None` if it does not.
    /// `cursor` is the stage of the last call: calls must be made in ascending order of areas.
    pub(crate) fn time_of_area(&self, area: f64, cursor: &mut usize) -> Option<f64> {
        loop {
            let PlacedStage { stage, start_s, area_before } = self.stages.get(*cursor)?;
            if area - area_before < stage.area() {
                return Some(start_s + stage.time_of_area(area - area_before));
            }
            *cursor += 1;
        }
    }

    /// The integral of the value between two times, in seconds from the start.
    #[cfg(test)]
    fn area_between(&self, from_s: f64, to_s: f64) -> f64 {
        let within = |placed: &PlacedStage| {
            let length_s = placed.stage.length.as_secs_f64();
            let first = (from_s - placed.start_s).clamp(0.0, length_s);
            let last = (to_s - placed.start_s).clamp(0.0, length_s);
            let value_at =
                |at: f64| placed.stage.from + (placed.stage.to - placed.stage.from) * at / length_s;
            (value_at(first) + value_at(last)) / 2.0 * (last - first)
        };
        self.stages.iter().map(within).sum()
    }

    /// The first time, not before `from_s`, at which the value is above `level`, in seconds from the start.
    /// In a rising stage this is the time at which the value crosses the level.
    pub(crate) fn next_above(&self, level: f64, from_s: f64) -> Option<f64> {
        self.stages.iter().find_map(|placed| placed.next_above(level, from_s))
    }

    /// Whether the value is above `level` at this time.
    pub(crate) fn is_above(&self, level: f64, at_s: f64) -> bool {
        self.next_above(level, at_s).is_some_and(|next| next <= at_s)
    }
}

impl PlacedStage {
    fn next_above(&self, level: f64, from_s: f64) -> Option<f64> {
        let Stage { length, from, to } = self.stage;
        let length_s = length.as_secs_f64();
        let at = (from_s - self.start_s).max(0.0);
        if at >= length_s {
            return None;
        }
        let value = from + (to - from) * at / length_s;
        if value > level {
            return Some(self.start_s + at);
        }
        // One nanosecond is added, so that the value is above the level and not equal to it.
        let crossing = (to > level).then(|| (level - from) / (to - from) * length_s + 1e-9)?;
        (crossing < length_s).then_some(self.start_s + crossing.max(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(count: f64) -> Duration {
        Duration::from_secs_f64(count)
    }

    fn steps_and_ramps() -> StageCurve {
        StageCurve::new(&[
            Stage::constant(seconds(10.0), 100.0),
            Stage { length: seconds(10.0), from: 100.0, to: 300.0 },
            Stage::constant(seconds(5.0), 0.0),
            Stage::constant(seconds(1.0), 50.0),
        ])
    }

    #[test]
    fn areas_are_reached_at_the_exact_times() {
        let (curve, mut cursor) = (steps_and_ramps(), 0);
        for (area, at_s) in [(0.0, 0.0), (500.0, 5.0), (1000.0, 10.0), (1600.0, 14.142_135_6), (3000.0, 25.0)]
        {
            let found = curve.time_of_area(area, &mut cursor).expect("within the curve");
            // 100 t + 10 t^2 = 600 has the root 4.2195...
            let exact =
                if area == 1600.0 { 10.0 + (-100.0 + (10_000.0f64 + 24_000.0).sqrt()) / 20.0 } else { at_s };
            assert!((found - exact).abs() < 1e-9, "{area}: {found} instead of {exact}");
        }
        assert_eq!(curve.time_of_area(3050.0, &mut cursor), None);
        assert_eq!(curve.area_between(0.0, 100.0), 3050.0);
        assert_eq!(curve.area_between(5.0, 15.0), 500.0 + 750.0);
    }

    #[test]
    fn a_level_is_crossed_where_the_ramp_crosses_it() {
        let curve = steps_and_ramps();
        assert_eq!(curve.next_above(99.0, 3.0), Some(3.0));
        let crossing = curve.next_above(200.0, 0.0).expect("the ramp crosses it");
        assert!((crossing - 15.0).abs() < 1e-6 && curve.is_above(200.0, crossing), "{crossing}");
        assert_eq!(curve.next_above(20.0, 20.0), Some(25.0));
        assert_eq!(curve.next_above(300.0, 0.0), None);
        assert_eq!(curve.next_above(50.0, 20.0), None);
        assert!(curve.is_above(0.0, 25.5) && !curve.is_above(0.0, 22.0) && !curve.is_above(0.0, 26.0));
    }

    proptest! {
        #[test]
        fn time_of_area_is_the_inverse_of_the_integral(
            stages in prop::collection::vec((0.01f64..20.0, 0.0f64..1e4, 0.0f64..1e4), 1..6),
            part in 0.0f64..0.999,
        ) {
            let stages: Vec<Stage> = stages
                .iter()
                .map(|&(length, from, to)| Stage { length: seconds(length), from, to })
                .collect();
            let curve = StageCurve::new(&stages);
            let area = curve.area_between(0.0, 1e6) * part;
            if let Some(at_s) = curve.time_of_area(area, &mut 0) {
                prop_assert!((curve.area_between(0.0, at_s) - area).abs() <= 1e-4 + area * 1e-6);
            }
        }
    }
}
