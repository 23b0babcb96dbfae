// Root mean square norms, a row to a block.

// rstd [rows] = 1 / sqrt(mean(x x) + eps)
KERNEL norm_statistics(f32 *rstd, const X *x, u64 rows, u32 width, f32 eps) {
    for ROWS(row, rows) {
        f32 sum = 0.0f;
        for COLUMNS(column, width) {
            f32 value = to(x[row * width + column]);
            sum += value * value;
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) rstd[row] = 1.0f / sqrtf(sum / (f32)width + eps);
    }
}

// y = x rstd w
KERNEL norm_forward(X *y, const X *x, const f32 *rstd, const W *w, u64 rows, u32 width) {
    for ROWS(row, rows) {
        f32 of_row = rstd[row];
        for COLUMNS(column, width) {
            u64 i = row * width + column;
            set(y[i], to(x[i]) * of_row * to(w[column]));
        }
    }
}

// dw [width] += the sum over rows of dy x rstd.
KERNEL norm_weight(f32 *dw, const X *dy, const X *x, const f32 *rstd, u64 rows, u32 width) {
    column_sums(dw, rows, width, [=](u64 row, u32 column) {
        u64 i = row * width + column;
        return to(dy[i]) * (to(x[i]) * rstd[row]);
    });
}

// With n = x rstd: rstd (dy w - n mean(dy w n)), added to dx or in its place; dx may be dy.
INLINE void norm_gradient(X *dx, const X *dy, const X *x, const f32 *rstd, const W *w, u64 rows, u32 width, bool adds) {
    for ROWS(row, rows) {
        f32 of_row = rstd[row];
        f32 along = 0.0f;
        for COLUMNS(column, width) {
            u64 i = row * width + column;
            along += to(dy[i]) * to(w[column]) * to(x[i]);
        }
        along = block_sum(along) * of_row / (f32)width;
        for COLUMNS(column, width) {
            u64 i = row * width + column;
            f32 d = of_row * (to(dy[i]) * to(w[column]) - to(x[i]) * of_row * along);
            set(dx[i], adds ? to(dx[i]) + d : d);
        }
    }
}

KERNEL norm_backward(X *dx, const X *dy, const X *x, const f32 *rstd, const W *w, u64 rows, u32 width) {
    norm_gradient(dx, dy, x, rstd, w, rows, width, true);
}

KERNEL norm_backward_in_place(X *dy, const X *x, const f32 *rstd, const W *w, u64 rows, u32 width) {
    norm_gradient(dy, dy, x, rstd, w, rows, width, false);
}
