// The router, a token to a warp.

#define SOFTMAX 0
#define SIGMOID 1
#define SOFTMAX_OF_CHOSEN 2
#define MOST_GROUPS 64

// One of several numbered scores: a total order of f32 as whole numbers, and of equal ones the first.
struct Best {
    i32 key;
    u32 number;
};

#define NO_NUMBER 0xffffffffu

INLINE i32 order_of(f32 score) {
    i32 bits = __float_as_int(score);
    return bits ^ (i32)((u32)(bits >> 31) >> 1);
}

INLINE bool is_before(Best a, Best b) {
    return a.key > b.key || (a.key == b.key && a.number < b.number);
}

// The best of all lanes, some of which may have none.
INLINE Best best_of_warp(Best best) {
    for (u32 distance = 16; distance > 0; distance /= 2) {
        Best other;
        other.key = __shfl_xor_sync(ALL_LANES, best.key, distance);
        other.number = __shfl_xor_sync(ALL_LANES, best.number, distance);
        if (other.number != NO_NUMBER && (best.number == NO_NUMBER || is_before(other, best))) best = other;
    }
    return best;
}

// The best score of experts from .. to that comes after `last`, in the groups that are open.
INLINE Best next_best(
    const f32 *scores, const f32 *bias, u32 from, u32 to, u32 size, u64 open, Best last
) {
    Best best = {0, NO_NUMBER};
    for (u32 expert = from + LANE; expert < to; expert += 32) {
        if (!(open >> (expert / size) & 1)) continue;
        // Plus zero makes -0 and 0 equal.
        f32 score = __fadd_rn(scores[expert], bias ? bias[expert] : 0.0f);
        Best one = {order_of(score), expert};
        if (last.number != NO_NUMBER && !is_before(last, one)) continue;
        if (best.number == NO_NUMBER || is_before(one, best)) best = one;
    }
    return best_of_warp(best);
}

INLINE f32 value_of(i32 key) {
    return __int_as_float(key ^ (i32)((u32)(key >> 31) >> 1));
}

// The groups that a token may choose from: those whose two best scores have the largest sum.
INLINE u64 open_groups(
    f32 *sums, const f32 *scores, const f32 *bias, u32 size, u32 groups, u32 active_groups
) {
    u64 all = ~(u64)0;
    Best none = {0, NO_NUMBER};
    if (groups <= 1) return all;
    for (u32 group = 0; group < groups; group++) {
        Best best = next_best(scores, bias, group * size, (group + 1) * size, size, all, none);
        Best second = next_best(scores, bias, group * size, (group + 1) * size, size, all, best);
        f32 sum = value_of(best.key);
        if (second.number != NO_NUMBER) sum += value_of(second.key);
        if (LANE == 0) sums[group] = sum;
    }
    __syncwarp();
    u64 open = 0;
    Best last = none;
    for (u32 chosen = 0; chosen < active_groups; chosen++) {
        last = next_best(sums, 0, 0, groups, 1, all, last);
        open |= (u64)1 << last.number;
    }
    __syncwarp();
    return open;
}

KERNEL route(
    f32 *scores_, i32 *choice_, f32 *weights_, const f32 *logits_, const f32 *bias, u64 tokens, u32 kind, u32 experts,
    u32 active, u32 groups, u32 active_groups, u32 normalises, f32 scale
) {
    __shared__ f32 group_sums[8 * MOST_GROUPS];
    u32 size = experts / (groups > 1 ? groups : 1);
    for (u64 token = (u64)blockIdx.x * WARPS + WARP; token < tokens; token += (u64)gridDim.x * WARPS) {
        f32 *scores = scores_ + token * experts;
        const f32 *logits = logits_ + token * experts;
        i32 *choice = choice_ + token * active;
        f32 *weights = weights_ + token * active;
        if (kind == SOFTMAX) {
            f32 max = -INFINITE, sum = 0.0f;
            for (u32 expert = LANE; expert < experts; expert += 32) max = fmaxf(max, logits[expert]);
            max = warp_max(max);
            for (u32 expert = LANE; expert < experts; expert += 32) sum += expf(logits[expert] - max);
            sum = warp_sum(sum);
            for (u32 expert = LANE; expert < experts; expert += 32) scores[expert] = expf(logits[expert] - max) / sum;
        } else {
            for (u32 expert = LANE; expert < experts; expert += 32) {
                scores[expert] = kind == SIGMOID ? sigmoid(logits[expert]) : logits[expert];
            }
        }
        __syncwarp();
        u64 open = open_groups(group_sums + WARP * MOST_GROUPS, scores, bias, size, groups, active_groups);
        // The k best take k passes. Each goes to its place among the numbers of those before.
        Best last = {0, NO_NUMBER};
        for (u32 chosen = 0; chosen < active; chosen++) {
            last = next_best(scores, bias, 0, experts, size, open, last);
            if (LANE == 0) {
                u32 place = chosen;
                while (place > 0 && choice[place - 1] > (i32)last.number) {
                    choice[place] = choice[place - 1];
                    place--;
                }
                choice[place] = (i32)last.number;
            }
        }
        __syncwarp();
        f32 max = -INFINITE, sum = 0.0f;
        if (kind == SOFTMAX_OF_CHOSEN) {
            for (u32 j = 0; j < active; j++) max = fmaxf(max, scores[choice[j]]);
            for (u32 j = 0; j < active; j++) sum += expf(scores[choice[j]] - max);
        } else if (normalises) {
            for (u32 j = 0; j < active; j++) sum += scores[choice[j]];
            if (kind == SIGMOID) sum += 1e-20f;
        } else {
            sum = 1.0f;
        }
        for (u32 j = LANE; j < active; j += 32) {
            f32 score = scores[choice[j]];
            weights[j] = (kind == SOFTMAX_OF_CHOSEN ? expf(score - max) : score) / sum * scale;
        }
    }
}

KERNEL route_backward(
    f32 *d_logits_, const f32 *d_weights_, const f32 *scores_, const i32 *choice_, u64 tokens, u32 kind, u32 experts,
    u32 active, u32 normalises, f32 scale
) {
    for (u64 token = (u64)blockIdx.x * WARPS + WARP; token < tokens; token += (u64)gridDim.x * WARPS) {
        f32 *d_logits = d_logits_ + token * experts;
        const f32 *scores = scores_ + token * experts;
        const f32 *d_weights = d_weights_ + token * active;
        const i32 *choice = choice_ + token * active;
        f32 max = -INFINITE, sum = 0.0f, along = 0.0f, along_scores = 0.0f;
        if (kind == SOFTMAX_OF_CHOSEN) {
            for (u32 j = 0; j < active; j++) max = fmaxf(max, scores[choice[j]]);
            for (u32 j = 0; j < active; j++) sum += expf(scores[choice[j]] - max);
            for (u32 j = 0; j < active; j++) along += expf(scores[choice[j]] - max) / sum * d_weights[j];
        } else if (normalises) {
            for (u32 j = 0; j < active; j++) sum += scores[choice[j]];
            if (kind == SIGMOID) sum += 1e-20f;
            for (u32 j = 0; j < active; j++) along += scores[choice[j]] / sum * d_weights[j];
        } else {
            sum = 1.0f;
        }
        if (kind == SOFTMAX) {
            for (u32 j = 0; j < active; j++) {
                along_scores += scale * (d_weights[j] - along) / sum * scores[choice[j]];
            }
        }
        for (u32 expert = LANE; expert < experts; expert += 32) {
            d_logits[expert] = kind == SOFTMAX ? -scores[expert] * along_scores : 0.0f;
        }
        __syncwarp();
        for (u32 j = LANE; j < active; j += 32) {
            f32 score = scores[choice[j]], d = d_weights[j] - along;
            if (kind == SOFTMAX_OF_CHOSEN) {
                d *= scale * (expf(score - max) / sum);
            } else {
                d = scale * d / sum;
                d = kind == SIGMOID ? d * score * (1.0f - score) : score * (d - along_scores);
            }
            d_logits[choice[j]] = d;
        }
        __syncwarp();
    }
}
