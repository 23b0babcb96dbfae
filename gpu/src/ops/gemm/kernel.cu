// Biases of matrix products; the products are cuBLAS's.

KERNEL bias_forward(X *y, const W *bias, u64 rows, u32 width) {
    for ROWS(row, rows) {
        for COLUMNS(column, width) {
            X &out = y[row * width + column];
            set(out, to(out) + to(bias[column]));
        }
    }
}

KERNEL bias_backward(f32 *db, const X *dy, u64 rows, u32 width) {
    column_sums(db, rows, width, [=](u64 row, u32 column) { return to(dy[row * width + column]); });
}

KERNEL scaled_bias_forward(X *y, const W *bias, const f32 *scale, u64 rows, u32 width) {
    for ROWS(row, rows) {
        f32 of_row = scale[row];
        for COLUMNS(column, width) {
            X &out = y[row * width + column];
            set(out, to(out) + of_row * to(bias[column]));
        }
    }
}

KERNEL scaled_bias_backward(f32 *db, const X *dy, const f32 *scale, u64 rows, u32 width) {
    column_sums(db, rows, width, [=](u64 row, u32 column) { return scale[row] * to(dy[row * width + column]); });
}

// x as the sum of two numbers of format X: twice as many digits as one has.
KERNEL split(X *upper, X *lower, const f32 *x, u64 n) {
    for EACH(i, n) {
        set(upper[i], x[i]);
        set(lower[i], x[i] - to(upper[i]));
    }
}

// d_scale [rows] += dy bias
KERNEL scaled_bias_scale(f32 *d_scale, const X *dy, const W *bias, u64 rows, u32 width) {
    for ROWS(row, rows) {
        f32 sum = 0.0f;
        for COLUMNS(column, width) sum += to(dy[row * width + column]) * to(bias[column]);
        sum = block_sum(sum);
        if (threadIdx.x == 0) d_scale[row] += sum;
    }
}
