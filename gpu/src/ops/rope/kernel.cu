// The rotation, a token to a block. Frequencies are made on the CPU, so that angles are its own.

// Sine and cosine. Multiples of a quarter turn are taken off in three parts, exactly for angles below a million; what is
// left goes into a polynomial. (The library's have a slow way for huge angles, and memory of their own for it.)
INLINE void sine_cosine(f32 angle, f32 &sine, f32 &cosine) {
    f32 quarters = rintf(angle * 0.636619747f);
    f32 r = fmaf(quarters, -1.57079625f, angle);
    r = fmaf(quarters, -7.54978942e-8f, r);
    r = fmaf(quarters, -5.39030295e-15f, r);
    f32 square = r * r;
    f32 s = fmaf(square, -1.95152959e-4f, 8.33216087e-3f);
    s = fmaf(square, s, -1.66666546e-1f);
    s = fmaf(square * r, s, r);
    f32 c = fmaf(square, 2.44331571e-5f, -1.38873163e-3f);
    c = fmaf(square, c, 4.16666456e-2f);
    c = fmaf(square * square, c, fmaf(square, -0.5f, 1.0f));
    i32 quadrant = (i32)quarters & 3;
    sine = quadrant & 1 ? c : s;
    cosine = quadrant & 1 ? s : c;
    if (quadrant & 2) sine = -sine;
    if (quadrant == 1 || quadrant == 2) cosine = -cosine;
}

// Dimensions offset .. offset + 2 pairs of every head of x [tokens, heads, width]; token t is at position start + t % sequence.
KERNEL rotate(
    X *x, const f32 *frequencies, u64 tokens, u32 heads, u32 width, u32 offset, u32 pairs, u32 start,
    u32 sequence, u32 interleaves, u32 back
) {
    for ROWS(token, tokens) {
        f32 position = (f32)(start + (u32)(token % sequence));
        for COLUMNS(i, heads * pairs) {
            u32 head = i / pairs, pair = i % pairs;
            f32 sine, cosine;
            sine_cosine(position * frequencies[pair], sine, cosine);
            if (back) sine = -sine;
            X *of_head = x + (token * heads + head) * width + offset;
            X &a = of_head[interleaves ? 2 * pair : pair];
            X &b = of_head[interleaves ? 2 * pair + 1 : pair + pairs];
            f32 left = to(a), right = to(b);
            set(a, left * cosine - right * sine);
            set(b, right * cosine + left * sine);
        }
    }
}
