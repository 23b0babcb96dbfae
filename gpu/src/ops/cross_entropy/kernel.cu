// Cross entropy, a row of logits to a block.

// (A kernel whose name is `mask` alone makes ptxas 13.0 crash for sm_80.)
KERNEL mask_columns(f32 *logits, u64 rows, u32 width, u32 from) {
    for ROWS(row, rows) {
        for COLUMNS(column, width) {
            if (column >= from) logits[row * width + column] = -INFINITE;
        }
    }
}

KERNEL row_max(f32 *max, const f32 *logits, u64 rows, u32 width) {
    for ROWS(row, rows) {
        f32 most = -INFINITE;
        for COLUMNS(column, width) most = fmaxf(most, logits[row * width + column]);
        most = block_max(most);
        if (threadIdx.x == 0) max[row] = most;
    }
}

// The column of a label among `width` from `first` on, or none: -1.
INLINE i64 local_column(i64 label, u64 first, u32 width) {
    i64 column = label - (i64)first;
    return label >= 0 && column >= 0 && column < width ? column : -1;
}

KERNEL row_sum(
    f32 *sum, f32 *target, const f32 *logits, const f32 *max, const i64 *labels, u64 first, u64 rows, u32 width
) {
    for ROWS(row, rows) {
        f32 most = max[row];
        f32 total = 0.0f;
        for COLUMNS(column, width) total += expf(logits[row * width + column] - most);
        total = block_sum(total);
        if (threadIdx.x == 0) {
            i64 column = local_column(labels[row], first, width);
            sum[row] = total;
            target[row] = column < 0 ? 0.0f : logits[row * width + column];
        }
    }
}

KERNEL loss_backward(
    f32 *logits, const f32 *max, const f32 *sum, const i64 *labels, u64 first, u64 rows, u32 width, f32 scale
) {
    for ROWS(row, rows) {
        i64 label = labels[row];
        i64 of_label = local_column(label, first, width);
        f32 most = max[row];
        f32 factor = scale / sum[row];
        for COLUMNS(column, width) {
            f32 &logit = logits[row * width + column];
            f32 d = expf(logit - most) * factor;
            if (column == of_label) d -= scale;
            logit = label < 0 ? 0.0f : d;
        }
    }
}
