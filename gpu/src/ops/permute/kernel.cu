// Copies of tokens by expert, and back. -1 stands for no copy and for no row.

// counts [experts] = how many copies choose each expert; one to a block.
KERNEL sort_counts(i32 *counts, const i32 *choice, u64 copies, u32 experts) {
    for ROWS(expert, experts) {
        u32 own = 0;
        for (u64 copy = threadIdx.x; copy < copies; copy += blockDim.x) own += choice[copy] == (i32)expert;
        __shared__ u32 of_warp[32];
        for (u32 distance = 16; distance > 0; distance /= 2) own += __shfl_xor_sync(ALL_LANES, own, distance);
        __syncthreads();
        if (LANE == 0) of_warp[WARP] = own;
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 all = 0;
            for (u32 warp = 0; warp < WARPS; warp++) all += of_warp[warp];
            counts[expert] = (i32)all;
        }
    }
}

// starts [experts] = where each expert's copies begin. One thread.
KERNEL sort_starts(i32 *starts, const i32 *counts, u32 experts) {
    i32 next = 0;
    for (u32 expert = 0; expert < experts; expert++) {
        starts[expert] = next;
        next += counts[expert];
    }
}

// order: each expert's copies as they come, from its start on, or from its first slot. One expert to a block, which goes
// through all copies; where slots are limited, it keeps the first ones, says how many, and leaves the rest empty.
KERNEL sort_place(
    i32 *order, i32 *kept, const i32 *starts, const i32 *choice, u64 copies, u32 experts, u32 slots
) {
    __shared__ u32 of_warp[32];
    for ROWS(expert, experts) {
        u64 start = slots ? expert * slots : (u64)starts[expert];
        u32 placed = 0;
        for (u64 first = 0; first < copies; first += blockDim.x) {
            u64 copy = first + threadIdx.x;
            bool is_mine = copy < copies && choice[copy] == (i32)expert;
            u32 lanes = __ballot_sync(ALL_LANES, is_mine);
            __syncthreads();
            if (LANE == 0) of_warp[WARP] = __popc(lanes);
            __syncthreads();
            u32 place = placed + __popc(lanes & ((1u << LANE) - 1));
            for (u32 warp = 0; warp < WARPS; warp++) {
                if (warp < WARP) place += of_warp[warp];
                placed += of_warp[warp];
            }
            if (is_mine && (!slots || place < slots)) order[start + place] = (i32)copy;
        }
        if (!slots) continue;
        if (placed > slots) placed = slots;
        for (u32 slot = placed + threadIdx.x; slot < slots; slot += blockDim.x) order[start + slot] = -1;
        if (threadIdx.x == 0) kept[expert] = (i32)placed;
    }
}

KERNEL set_none(i32 *x, u64 n) {
    for EACH(i, n) x[i] = -1;
}

KERNEL invert(i32 *inverse, const i32 *order, u64 rows) {
    for EACH(row, rows) {
        if (order[row] >= 0) inverse[order[row]] = (i32)row;
    }
}

// rows = each copy's token of x, of `k` copies each; zeros in an empty slot.
KERNEL gather(X *out, const X *x, const i32 *order, u64 rows, u32 k, u32 width) {
    for ROWS(row, rows) {
        i32 copy = order[row];
        u64 token = copy < 0 ? 0 : (u32)copy / k;
        for COLUMNS(column, width) {
            if (copy < 0) {
                set(out[row * width + column], 0.0f);
            } else {
                out[row * width + column] = x[token * width + column];
            }
        }
    }
}

// y [tokens, width] += the rows of each token's copies, rounded once.
KERNEL combine(X *y, const X *rows, const i32 *inverse, u64 tokens, u32 k, u32 width) {
    for ROWS(token, tokens) {
        for COLUMNS(column, width) {
            X &out = y[token * width + column];
            f32 sum = to(out);
            for (u32 j = 0; j < k; j++) {
                i32 row = inverse[token * k + j];
                if (row >= 0) sum += to(rows[(u64)row * width + column]);
            }
            set(out, sum);
        }
    }
}

KERNEL scatter(X *out, const X *x, const i32 *places, u64 rows, u32 width) {
    for ROWS(row, rows) {
        i32 place = places[row];
        if (place < 0) continue;
        for COLUMNS(column, width) out[(u64)place * width + column] = x[row * width + column];
    }
}

KERNEL gather_scalars(f32 *out, const f32 *values, const i32 *order, u64 rows) {
    for EACH(row, rows) out[row] = order[row] < 0 ? 0.0f : values[order[row]];
}

// What no row has is 0 before.
KERNEL scatter_scalars(f32 *out, const f32 *values, const i32 *order, u64 rows) {
    for EACH(row, rows) {
        if (order[row] >= 0) out[order[row]] = values[row];
    }
}
