// Causal attention. Blocks of 128 threads go along the keys, or the queries, in tiles of as many; of a tile each thread
// has one score, and then some columns of what the scores weigh. Nothing of s x s is held.
//
// q is [batch, sequence, heads, width], k [batch, sequence, kv_heads, width], v [batch, sequence, kv_heads, value],
// o [batch, sequence, heads, value]; lse and delta are [batch, heads, sequence]. Dynamic shared memory holds a row of the
// one side, sums of columns, and the tile's factors.

#define TILE 128

struct Sizes {
    u32 sequence, heads, kv_heads, width, value, window;
    f32 scale;
    // Queries are so many tokens further than keys, where these are of an earlier piece of their sequence.
    u32 ahead;

    INLINE_MEMBER u64 row(u64 batch, u32 token, u32 of, u32 head) const {
        return (batch * sequence + token) * of + head;
    }
    // Keys that a query sees begin here, and end in front of the other.
    INLINE_MEMBER u32 first_key(u32 query) const {
        u32 end = query + ahead + 1;
        return window && end > window ? end - window : 0;
    }
    INLINE_MEMBER u32 end_key(u32 query) const {
        return min(query + ahead + 1, sequence);
    }
    // Queries that see a key begin here, and end in front of the other.
    INLINE_MEMBER u32 first_query(u32 key) const {
        return key > ahead ? key - ahead : 0;
    }
    INLINE_MEMBER u32 end_query(u32 key) const {
        if (!window || window >= sequence + ahead - key) return sequence;
        return key + window > ahead ? key + window - ahead : 0;
    }
};

// A query of one head of a sequence: what a block works on.
struct Query {
    u64 batch;
    u32 head, token, kv_head;

    INLINE_MEMBER Query(u64 number, const Sizes &sizes) {
        token = (u32)(number % sizes.sequence);
        head = (u32)(number / sizes.sequence % sizes.heads);
        batch = number / sizes.sequence / sizes.heads;
        kv_head = head / (sizes.heads / sizes.kv_heads);
    }
};

template <class T> INLINE f32 dot(const f32 *a, const T *b, u32 n) {
    f32 sum = 0.0f;
    for (u32 i = 0; i < n; i++) sum += a[i] * to(b[i]);
    return sum;
}

template <class T> INLINE f32 dot_of(const T *a, const T *b, u32 n) {
    f32 sum = 0.0f;
    for (u32 i = 0; i < n; i++) sum += to(a[i]) * to(b[i]);
    return sum;
}

KERNEL attend(
    X *o, f32 *lse, const X *q, const X *k, const X *v, const X *sinks, u64 queries, u32 sequence, u32 heads,
    u32 kv_heads, u32 width, u32 value, u32 window, f32 scale,
    u32 ahead
) {
    extern __shared__ f32 shared[];
    Sizes sizes = {sequence, heads, kv_heads, width, value, window, scale, ahead};
    f32 *row = shared, *sums = row + width, *factors = sums + value;
    for ROWS(number, queries) {
        Query query(number, sizes);
        __syncthreads();
        for COLUMNS(i, width) row[i] = to(q[sizes.row(query.batch, query.token, heads, query.head) * width + i]);
        for COLUMNS(i, value) sums[i] = 0.0f;
        f32 max = sinks ? to(sinks[query.head]) : -INFINITE;
        f32 total = sinks ? 1.0f : 0.0f;
        __syncthreads();
        u32 end = sizes.end_key(query.token);
        for (u32 first = sizes.first_key(query.token); first < end; first += TILE) {
            u32 key = first + threadIdx.x;
            f32 score = -INFINITE;
            if (key < end) {
                score = scale * dot(row, k + sizes.row(query.batch, key, kv_heads, query.kv_head) * width, width);
            }
            f32 new_max = fmaxf(max, block_max(score));
            f32 shrink = expf(max - new_max);
            f32 factor = expf(score - new_max);
            factors[threadIdx.x] = factor;
            total = total * shrink + block_sum(factor);
            max = new_max;
            u32 keys = min(end - first, (u32)TILE);
            const X *values = v + sizes.row(query.batch, first, kv_heads, query.kv_head) * value;
            for COLUMNS(i, value) {
                f32 sum = sums[i] * shrink;
                for (u32 j = 0; j < keys; j++) sum += factors[j] * to(values[(u64)j * kv_heads * value + i]);
                sums[i] = sum;
            }
            __syncthreads();
        }
        X *out = o + sizes.row(query.batch, query.token, heads, query.head) * value;
        for COLUMNS(i, value) set(out[i], total > 0.0f ? sums[i] / total : 0.0f);
        if (threadIdx.x == 0) lse[number] = max + logf(total);
    }
}

// o and lse of some keys take in those of others.
KERNEL attend_merge(
    f32 *o, f32 *lse, const X *part, const f32 *part_lse, u64 queries, u32 sequence, u32 heads, u32 value
) {
    for ROWS(number, queries) {
        u64 batch = number / sequence / heads;
        u64 at = ((batch * sequence + number % sequence) * heads + number / sequence % heads) * value;
        f32 some = lse[number], others = part_lse[number];
        f32 max = fmaxf(some, others);
        __syncthreads();
        // There may be none that are seen.
        if (max == -INFINITE) continue;
        f32 all = max + logf(expf(some - max) + expf(others - max));
        f32 keep = expf(some - all), take = expf(others - all);
        for COLUMNS(i, value) o[at + i] = o[at + i] * keep + to(part[at + i]) * take;
        if (threadIdx.x == 0) lse[number] = all;
    }
}

// delta = the sum of d_o o of each query and head.
KERNEL attend_delta(f32 *delta, const X *d_o, const X *o, u64 queries, u32 sequence, u32 heads, u32 value) {
    for ROWS(number, queries) {
        u64 batch = number / sequence / heads;
        u64 at = ((batch * sequence + number % sequence) * heads + number / sequence % heads) * value;
        f32 sum = 0.0f;
        for COLUMNS(i, value) sum += to(d_o[at + i]) * to(o[at + i]);
        sum = block_sum(sum);
        if (threadIdx.x == 0) delta[number] = sum;
    }
}

// d_sinks [heads] -= the sum over queries of the sink's probability times delta; a head to a block.
KERNEL attend_sinks(
    f32 *d_sinks, const f32 *delta, const f32 *lse, const X *sinks, u32 batch, u32 sequence, u32 heads
) {
    for ROWS(head, heads) {
        f32 sink = to(sinks[head]);
        f32 sum = 0.0f;
        for (u32 b = 0; b < batch; b++) {
            u64 first = ((u64)b * heads + head) * sequence;
            for COLUMNS(i, sequence) sum += expf(sink - lse[first + i]) * delta[first + i];
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) d_sinks[head] -= sum;
    }
}

// dq, a query to a block.
KERNEL attend_queries(
    X *dq, const X *d_o, const f32 *lse, const f32 *delta, const X *q, const X *k, const X *v, u64 queries,
    u32 sequence, u32 heads, u32 kv_heads, u32 width, u32 value, u32 window, f32 scale,
    u32 ahead
) {
    extern __shared__ f32 shared[];
    Sizes sizes = {sequence, heads, kv_heads, width, value, window, scale, ahead};
    f32 *row = shared, *d_row = row + width, *sums = d_row + value, *factors = sums + width;
    for ROWS(number, queries) {
        Query query(number, sizes);
        u64 at = sizes.row(query.batch, query.token, heads, query.head);
        __syncthreads();
        for COLUMNS(i, width) {
            row[i] = to(q[at * width + i]);
            sums[i] = 0.0f;
        }
        for COLUMNS(i, value) d_row[i] = to(d_o[at * value + i]);
        __syncthreads();
        u32 end = sizes.end_key(query.token);
        for (u32 first = sizes.first_key(query.token); first < end; first += TILE) {
            u32 key = first + threadIdx.x;
            f32 factor = 0.0f;
            if (key < end) {
                u64 of_key = sizes.row(query.batch, key, kv_heads, query.kv_head);
                f32 p = expf(scale * dot(row, k + of_key * width, width) - lse[number]);
                factor = p * (dot(d_row, v + of_key * value, value) - delta[number]) * scale;
            }
            factors[threadIdx.x] = factor;
            __syncthreads();
            u32 keys = min(end - first, (u32)TILE);
            const X *rows = k + sizes.row(query.batch, first, kv_heads, query.kv_head) * width;
            for COLUMNS(i, width) {
                f32 sum = sums[i];
                for (u32 j = 0; j < keys; j++) sum += factors[j] * to(rows[(u64)j * kv_heads * width + i]);
                sums[i] = sum;
            }
            __syncthreads();
        }
        for COLUMNS(i, width) set(dq[at * width + i], sums[i]);
    }
}

// dk and dv, a key of one of their heads to a block: number = (batch * kv_heads + kv_head) * sequence + key.
KERNEL attend_keys(
    X *dk, X *dv, const X *d_o, const f32 *lse, const f32 *delta, const X *q, const X *k, const X *v, u64 keys,
    u32 sequence, u32 heads, u32 kv_heads, u32 width, u32 value, u32 window, f32 scale,
    u32 ahead
) {
    extern __shared__ f32 shared[];
    Sizes sizes = {sequence, heads, kv_heads, width, value, window, scale, ahead};
    f32 *k_row = shared, *v_row = k_row + width, *k_sums = v_row + value, *v_sums = k_sums + width;
    f32 *d_scores = v_sums + value, *factors = d_scores + TILE;
    u32 group = heads / kv_heads;
    for ROWS(number, keys) {
        u32 key = (u32)(number % sequence), kv_head = (u32)(number / sequence % kv_heads);
        u64 batch = number / sequence / kv_heads;
        u64 at = sizes.row(batch, key, kv_heads, kv_head);
        __syncthreads();
        for COLUMNS(i, width) {
            k_row[i] = to(k[at * width + i]);
            k_sums[i] = 0.0f;
        }
        for COLUMNS(i, value) {
            v_row[i] = to(v[at * value + i]);
            v_sums[i] = 0.0f;
        }
        __syncthreads();
        u32 last = sizes.end_query(key);
        for (u32 head = kv_head * group; head < (kv_head + 1) * group; head++) {
            u64 of_head = (batch * heads + head) * sequence;
            for (u32 first = sizes.first_query(key); first < last; first += TILE) {
                u32 query = first + threadIdx.x;
                f32 p = 0.0f, d_score = 0.0f;
                if (query < last) {
                    u64 of_query = sizes.row(batch, query, heads, head);
                    p = expf(scale * dot(k_row, q + of_query * width, width) - lse[of_head + query]);
                    f32 d = dot(v_row, d_o + of_query * value, value);
                    d_score = p * (d - delta[of_head + query]) * scale;
                }
                factors[threadIdx.x] = p;
                d_scores[threadIdx.x] = d_score;
                __syncthreads();
                u32 rows = min(last - first, (u32)TILE);
                u64 from = sizes.row(batch, first, heads, head);
                for COLUMNS(i, width) {
                    f32 sum = k_sums[i];
                    for (u32 j = 0; j < rows; j++) sum += d_scores[j] * to(q[(from + (u64)j * heads) * width + i]);
                    k_sums[i] = sum;
                }
                for COLUMNS(i, value) {
                    f32 sum = v_sums[i];
                    for (u32 j = 0; j < rows; j++) sum += factors[j] * to(d_o[(from + (u64)j * heads) * value + i]);
                    v_sums[i] = sum;
                }
                __syncthreads();
            }
        }
        for COLUMNS(i, width) set(dk[at * width + i], k_sums[i]);
        for COLUMNS(i, value) set(dv[at * value + i], v_sums[i]);
    }
}

// By its definition, with all probabilities [batch, heads, sequence, sequence] as a tensor; a query to a block, which
// makes its scores three times: for their maximum, for their sum, and for themselves.
KERNEL eager(
    X *o, X *probabilities, const X *q, const X *k, const X *v, const X *sinks, u64 queries, u32 sequence, u32 heads,
    u32 kv_heads, u32 width, u32 value, u32 window, f32 scale
) {
    Sizes sizes = {sequence, heads, kv_heads, width, value, window, scale};
    for ROWS(number, queries) {
        Query query(number, sizes);
        u64 at = sizes.row(query.batch, query.token, heads, query.head);
        const X *row = q + at * width;
        u32 first = sizes.first_key(query.token);
        f32 sink = sinks ? to(sinks[query.head]) : -INFINITE;
        auto score = [&](u32 key) {
            return scale * dot_of(row, k + sizes.row(query.batch, key, kv_heads, query.kv_head) * width, width);
        };
        f32 max = sink, sum = 0.0f;
        for (u32 key = first + threadIdx.x; key <= query.token; key += blockDim.x) max = fmaxf(max, score(key));
        max = block_max(max);
        for (u32 key = first + threadIdx.x; key <= query.token; key += blockDim.x) sum += expf(score(key) - max);
        sum = block_sum(sum) + expf(sink - max);
        X *of_row = probabilities + number * sequence;
        for COLUMNS(key, sequence) {
            bool is_seen = key >= first && key <= query.token;
            set(of_row[key], is_seen ? expf(score(key) - max) / sum : 0.0f);
        }
        __syncthreads();
        for COLUMNS(i, value) {
            f32 total = 0.0f;
            for (u32 key = first; key <= query.token; key++) {
                u64 of_key = sizes.row(query.batch, key, kv_heads, query.kv_head);
                total += to(of_row[key]) * to(v[of_key * value + i]);
            }
            set(o[at * value + i], total);
        }
    }
}

// d_scores, the gradient of the scaled scores, and dq.
KERNEL eager_queries(
    X *dq, X *d_scores, const X *d_o, const X *probabilities, const X *k, const X *v, u64 queries, u32 sequence,
    u32 heads, u32 kv_heads, u32 width, u32 value, u32 window, f32 scale
) {
    Sizes sizes = {sequence, heads, kv_heads, width, value, window, scale};
    for ROWS(number, queries) {
        Query query(number, sizes);
        u64 at = sizes.row(query.batch, query.token, heads, query.head);
        u32 first = sizes.first_key(query.token);
        const X *p = probabilities + number * sequence;
        X *out = d_scores + number * sequence;
        auto d_p = [&](u32 key) {
            u64 of_key = sizes.row(query.batch, key, kv_heads, query.kv_head);
            return dot_of(d_o + at * value, v + of_key * value, value);
        };
        f32 delta = 0.0f;
        for (u32 key = first + threadIdx.x; key <= query.token; key += blockDim.x) delta += to(p[key]) * d_p(key);
        delta = block_sum(delta);
        for COLUMNS(key, sequence) {
            bool is_seen = key >= first && key <= query.token;
            set(out[key], is_seen ? to(p[key]) * (d_p(key) - delta) : 0.0f);
        }
        __syncthreads();
        for COLUMNS(i, width) {
            f32 total = 0.0f;
            for (u32 key = first; key <= query.token; key++) {
                u64 of_key = sizes.row(query.batch, key, kv_heads, query.kv_head);
                total += scale * to(out[key]) * to(k[of_key * width + i]);
            }
            set(dq[at * width + i], total);
        }
    }
}

KERNEL eager_keys(
    X *dk, X *dv, const X *d_o, const X *probabilities, const X *d_scores, const X *q, u64 keys, u32 sequence,
    u32 heads, u32 kv_heads, u32 width, u32 value, u32 window, f32 scale
) {
    Sizes sizes = {sequence, heads, kv_heads, width, value, window, scale};
    u32 group = heads / kv_heads;
    for ROWS(number, keys) {
        u32 key = (u32)(number % sequence), kv_head = (u32)(number / sequence % kv_heads);
        u64 batch = number / sequence / kv_heads;
        u64 at = sizes.row(batch, key, kv_heads, kv_head);
        u32 last = sizes.end_query(key);
        for COLUMNS(i, width + value) {
            bool is_key = i < width;
            u32 column = is_key ? i : i - width;
            f32 total = 0.0f;
            for (u32 head = kv_head * group; head < (kv_head + 1) * group; head++) {
                for (u32 query = key; query < last; query++) {
                    u64 weight = ((batch * heads + head) * sequence + query) * sequence + key;
                    u64 from = sizes.row(batch, query, heads, head);
                    if (is_key) {
                        total += scale * to(d_scores[weight]) * to(q[from * width + column]);
                    } else {
                        total += to(probabilities[weight]) * to(d_o[from * value + column]);
                    }
                }
            }
            if (is_key) {
                set(dk[at * width + column], total);
            } else {
                set(dv[at * value + column], total);
            }
        }
    }
}

// d_sinks [heads] -= the sum of a head's gradients of scores: those of a softmax's inputs add up to zero.
KERNEL eager_sinks(f32 *d_sinks, const X *d_scores, u32 batch, u32 sequence, u32 heads) {
    for ROWS(head, heads) {
        f32 sum = 0.0f;
        u64 square = (u64)sequence * sequence;
        for (u32 b = 0; b < batch; b++) {
            const X *of_head = d_scores + ((u64)b * heads + head) * square;
            for (u64 i = threadIdx.x; i < square; i += blockDim.x) sum += to(of_head[i]);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) d_sinks[head] -= sum;
    }
}
