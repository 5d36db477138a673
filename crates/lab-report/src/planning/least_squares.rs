//! Nonlinear least squares for three parameters that are not negative: Levenberg's and Marquardt's method,
//! written out here because it is short, and because a planner's sums must be easy to check.

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fit {
    /// The parameters.
    pub(super) parameters: [f64; 3],
    /// Their standard errors, from the curvature at the minimum. With as many points as parameters they are
    /// not known.
    pub(super) standard_errors: [f64; 3],
    /// The share of the variance that the curve explains (R squared).
    pub(super) explained: f64,
}

/// The most steps.
const STEPS_MAX: usize = 2000;
/// It has arrived when a step changes the sum of squares by less than this share.
const ARRIVED: f64 = 1e-14;

type Matrix = [[f64; 3]; 3];

/// Fits `curve` to (x, y), beginning at `start`. `None` if no sum is finite.
pub(super) fn fit(
    points: &[(f64, f64)],
    start: [f64; 3],
    curve: fn(f64, &[f64; 3]) -> f64,
    slopes: fn(f64, &[f64; 3]) -> [f64; 3],
) -> Option<Fit> {
    let sum_of_squares =
        |parameters: &[f64; 3]| points.iter().map(|(x, y)| (y - curve(*x, parameters)).powi(2)).sum::<f64>();
    let mut parameters = start;
    let mut sum = sum_of_squares(&parameters);
    let mut damping = 1e-3;
    let mut quiet = 0;
    for _ in 0..STEPS_MAX {
        let (normal, gradient) = normal_equations(points, &parameters, curve, slopes);
        let mut damped = normal;
        (0..3).for_each(|index| damped[index][index] += damping * normal[index][index].max(1e-300));
        let step = solve(&damped, &gradient);
        let next = step.map(|step| [0, 1, 2].map(|index| (parameters[index] + step[index]).max(0.0)));
        match next.map(|next| (next, sum_of_squares(&next))) {
            Some((next, next_sum)) if next_sum.is_finite() && next_sum <= sum => {
                // Several steps without a change, not only one: a parameter at its border may first have to
                // leave it.
                quiet = if sum - next_sum <= ARRIVED * sum { quiet + 1 } else { 0 };
                (parameters, sum) = (next, next_sum);
                damping = (damping * 0.3).max(1e-12);
            }
            _ => {
                damping *= 4.0;
                quiet += usize::from(damping > 1e12);
            }
        }
        if quiet > 5 {
            break;
        }
    }
    if !sum.is_finite() || parameters.iter().any(|parameter| !parameter.is_finite()) {
        return None;
    }
    let (normal, _) = normal_equations(points, &parameters, curve, slopes);
    Some(Fit {
        parameters,
        standard_errors: standard_errors(&normal, sum, points.len()),
        explained: explained(points, sum),
    })
}

/// The products of the slopes with each other, and with the residuals.
fn normal_equations(
    points: &[(f64, f64)],
    parameters: &[f64; 3],
    curve: fn(f64, &[f64; 3]) -> f64,
    slopes: fn(f64, &[f64; 3]) -> [f64; 3],
) -> (Matrix, [f64; 3]) {
    let (mut normal, mut gradient) = ([[0.0; 3]; 3], [0.0; 3]);
    for (x, y) in points {
        let left_over = y - curve(*x, parameters);
        let slopes = slopes(*x, parameters);
        for row in 0..3 {
            gradient[row] += slopes[row] * left_over;
            (0..3).for_each(|column| normal[row][column] += slopes[row] * slopes[column]);
        }
    }
    (normal, gradient)
}

/// Cramer's rule on a matrix whose rows and columns were first scaled to similar sizes.
fn solve(matrix: &Matrix, right: &[f64; 3]) -> Option<[f64; 3]> {
    let scale = [0, 1, 2].map(|index| 1.0 / matrix[index][index].sqrt());
    let scaled: Matrix =
        [0, 1, 2].map(|row| [0, 1, 2].map(|column| matrix[row][column] * scale[row] * scale[column]));
    let right = [0, 1, 2].map(|row| right[row] * scale[row]);
    let all = determinant(&scaled);
    if !all.is_finite() || all.abs() < 1e-300 {
        return None;
    }
    Some([0, 1, 2].map(|column| {
        let mut replaced = scaled;
        (0..3).for_each(|row| replaced[row][column] = right[row]);
        determinant(&replaced) / all * scale[column]
    }))
}

fn determinant(m: &Matrix) -> f64 {
    m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
}

fn standard_errors(normal: &Matrix, sum: f64, points: usize) -> [f64; 3] {
    let unknown = [f64::NAN; 3];
    if points <= 3 {
        return unknown;
    }
    let variance = sum / (points - 3) as f64;
    let unit = |index: usize| [0, 1, 2].map(|row| f64::from(u8::from(row == index)));
    [0, 1, 2]
        .map(|index| solve(normal, &unit(index)).map_or(f64::NAN, |column| (column[index] * variance).sqrt()))
}

fn explained(points: &[(f64, f64)], sum: f64) -> f64 {
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
    let all = points.iter().map(|(_, y)| (y - mean).powi(2)).sum::<f64>();
    1.0 - sum / all
}
