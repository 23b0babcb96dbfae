//! How near numbers of two devices are.

/// How far numbers of two sides are apart where they are farthest, and in what: the root of the mean square of differences, of
/// that of a tensor's numbers.
pub(crate) fn apart<'a>(got: &'a [(String, Vec<f32>)], expected: &[(String, Vec<f32>)]) -> (f32, &'a str) {
    assert_eq!(got.len(), expected.len());
    // What cancels out to nearly nothing has the rounding of what cancelled: numbers a hundredth as large as the largest.
    let square = |x: &[f32]| x.iter().map(|x| x.powi(2)).sum::<f32>();
    let largest = expected.iter().map(|(_, x)| square(x)).fold(0.0, f32::max);
    let mut worst = (0.0, "");
    for ((name, got), (_, expected)) in got.iter().zip(expected) {
        assert_eq!(got.len(), expected.len(), "{name}");
        let off: f32 = got.iter().zip(expected).map(|(got, expected)| (got - expected).powi(2)).sum();
        let off = (off / (square(expected) + 1e-4 * largest + f32::MIN_POSITIVE)).sqrt();
        // What is no number is farther than any.
        worst = if off <= worst.0 { worst } else { (off, name.as_str()) };
        if off.is_nan() {
            break;
        }
    }
    worst
}

/// Panics where they are farther apart than so much.
#[track_caller]
pub(crate) fn assert_near(what: &str, got: &[(String, Vec<f32>)], expected: &[(String, Vec<f32>)], tolerance: f32) {
    let (off, name) = apart(got, expected);
    assert!(off <= tolerance, "{what} {name}: {off} of its size is another than on the CPU");
    println!("{what}: {off:.1e} at most, of {name}");
}
