// Sums, gates and columns.

KERNEL add(X *y, const X *x, u64 n) {
    for EACH(i, n) set(y[i], to(y[i]) + to(x[i]));
}

KERNEL add_up(f32 *y, const X *x, u64 n) {
    for EACH(i, n) y[i] += to(x[i]);
}

// y [rows, width] *= sigmoid(gate [rows])
KERNEL gate_rows(X *y, const f32 *gate, u64 rows, u32 width) {
    for ROWS(row, rows) {
        f32 scale = sigmoid(gate[row]);
        for COLUMNS(column, width) set(y[row * width + column], to(y[row * width + column]) * scale);
    }
}

KERNEL gate_rows_backward(X *dy, f32 *d_gate, const X *ungated, const f32 *gate, u64 rows, u32 width) {
    for ROWS(row, rows) {
        f32 scale = sigmoid(gate[row]);
        f32 along = 0.0f;
        for COLUMNS(column, width) {
            u64 i = row * width + column;
            f32 d = to(dy[i]);
            along += d * to(ungated[i]);
            set(dy[i], d * scale);
        }
        along = block_sum(along);
        if (threadIdx.x == 0) d_gate[row] = along * scale * (1.0f - scale);
    }
}

// Columns to_first .. of each head of out [rows, heads, to_all] = columns from_first .. of x [rows, from_all].
KERNEL share_columns(
    X *out, u32 to_all, u32 to_first, u32 heads, const X *x, u32 from_all, u32 from_first, u64 rows, u32 width
) {
    for ROWS(row, rows * heads) {
        const X *source = x + row / heads * from_all + from_first;
        X *target = out + row * to_all + to_first;
        for COLUMNS(column, width) target[column] = source[column];
    }
}

// Columns of out [rows, to_all] = the sums of columns of the heads of x [rows, heads, from_all].
KERNEL sum_columns(
    X *out, u32 to_all, u32 to_first, u32 heads, const X *x, u32 from_all, u32 from_first, u64 rows, u32 width
) {
    for ROWS(row, rows) {
        for COLUMNS(column, width) {
            f32 sum = 0.0f;
            for (u32 head = 0; head < heads; head++) {
                sum += to(x[(row * heads + head) * from_all + from_first + column]);
            }
            set(out[row * to_all + to_first + column], sum);
        }
    }
}
