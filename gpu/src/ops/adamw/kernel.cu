// The optimizer's update, with moments of format X; conversions between master weights and weights.

// `size` and `root` have the corrections of the step's number in them; `keep` is what decay leaves of a weight.
KERNEL adamw(
    f32 *master, X *first, X *second, const f32 *gradient, u64 n, f32 beta1, f32 beta2, f32 eps, f32 size, f32 root,
    f32 keep, f32 scale
) {
    for EACH(i, n) {
        f32 g = gradient[i] * scale;
        f32 m = beta1 * to(first[i]) + (1.0f - beta1) * g;
        f32 v = beta2 * to(second[i]) + (1.0f - beta2) * g * g;
        set(first[i], m);
        set(second[i], v);
        master[i] = master[i] * keep - size * m / (sqrtf(v) / root + eps);
    }
}

// out [n] = x [n] in format X.
KERNEL narrow(X *out, const f32 *x, u64 n) {
    for EACH(i, n) set(out[i], x[i]);
}

// out [n] = x [n] of format X.
KERNEL widen(f32 *out, const X *x, u64 n) {
    for EACH(i, n) out[i] = to(x[i]);
}
