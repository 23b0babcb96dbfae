//! How near numbers of two devices are.

/// Panics where the root of the mean square of differences is more than so much of that of a tensor's numbers.
#[track_caller]
pub(crate) fn assert_near(what: &str, got: &[(String, Vec<f32>)], expected: &[(String, Vec<f32>)], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let mut worst = (0.0, "");
    // What cancels out to nearly nothing has the rounding of what cancelled: numbers a hundredth as large as the largest.
    let square = |x: &[f32]| x.iter().map(|x| x.powi(2)).sum::<f32>();
    let largest = expected.iter().map(|(_, x)| square(x)).fold(0.0, f32::max);
    for ((name, got), (_, expected)) in got.iter().zip(expected) {
        assert_eq!(got.len(), expected.len(), "{what} {name}");
        let off: f32 = got.iter().zip(expected).map(|(got, expected)| (got - expected).powi(2)).sum();
        let off = (off / (square(expected) + 1e-4 * largest + f32::MIN_POSITIVE)).sqrt();
        // No number is below none.
        assert!(off <= tolerance, "{what} {name}: {off} of its size is another than on the CPU");
        worst = if off > worst.0 { (off, name) } else { worst };
    }
    println!("{what}: {:.1e} at most, of {}", worst.0, worst.1);
}
