// Rows of a table [rows, width], whose first one is row `first` of the vocabulary.

// The row of an id, -1 if it is not in the table.
INLINE i64 local_row(i64 id, u64 first, u64 rows) {
    i64 row = id - (i64)first;
    return id >= 0 && row >= 0 && row < (i64)rows ? row : -1;
}

KERNEL embed(X *x, const i64 *ids, const W *table, u64 tokens, u32 width, u64 first, u64 rows) {
    for ROWS(token, tokens) {
        i64 row = local_row(ids[token], first, rows);
        for COLUMNS(column, width) set(x[token * width + column], row < 0 ? 0.0f : to(table[row * width + column]));
    }
}

// d_table += dx. The first token of an id adds those of all tokens that have it, in their order: no two blocks write one
// row.
KERNEL embed_backward(f32 *d_table, const i64 *ids, const X *dx, u64 tokens, u32 width, u64 first, u64 rows) {
    for ROWS(token, tokens) {
        i64 id = ids[token];
        i64 row = local_row(id, first, rows);
        f32 before = 0.0f;
        for (u64 other = threadIdx.x; other < token; other += blockDim.x) before += ids[other] == id ? 1.0f : 0.0f;
        before = block_sum(before);
        if (row < 0 || before > 0.0f) continue;
        for (u64 other = token; other < tokens; other++) {
            if (ids[other] != id) continue;
            for COLUMNS(column, width) d_table[row * width + column] += to(dx[other * width + column]);
        }
    }
}
