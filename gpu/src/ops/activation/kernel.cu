// The gated activations. `clamps` says which.

struct Point {
    f32 linear, gate, sigmoid, alpha;
    bool gate_passes, up_passes;

    INLINE_MEMBER Point(f32 gate_, f32 up, u32 clamps, f32 limit, f32 alpha_) {
        gate = gate_;
        linear = up;
        alpha = 1.0f;
        gate_passes = up_passes = true;
        if (clamps) {
            gate_passes = gate_ <= limit;
            up_passes = fabsf(up) <= limit;
            gate = fminf(gate_, limit);
            linear = fminf(fmaxf(up, -limit), limit) + 1.0f;
            alpha = alpha_;
        }
        sigmoid = ::sigmoid(alpha * gate);
    }

    INLINE_MEMBER f32 product() const {
        return linear * (gate * sigmoid);
    }
};

// out [rows, width] = activation(gate, up), each row times its scale, if there are scales.
KERNEL activate(
    X *out, const X *gate, const X *up, const f32 *scale, u64 rows, u32 width, u32 clamps, f32 limit, f32 alpha
) {
    for ROWS(row, rows) {
        f32 of_row = scale ? scale[row] : 1.0f;
        for COLUMNS(column, width) {
            u64 i = row * width + column;
            set(out[i], of_row * Point(to(gate[i]), to(up[i]), clamps, limit, alpha).product());
        }
    }
}

// gate and up become their gradients; d_scale [rows] that of the scales, where there are some.
KERNEL activate_backward(
    X *gate, X *up, const X *d_out, const f32 *scale, f32 *d_scale, u64 rows, u32 width, u32 clamps, f32 limit,
    f32 alpha
) {
    for ROWS(row, rows) {
        f32 of_row = scale ? scale[row] : 1.0f;
        f32 along = 0.0f;
        for COLUMNS(column, width) {
            u64 i = row * width + column;
            Point point(to(gate[i]), to(up[i]), clamps, limit, alpha);
            f32 d = to(d_out[i]);
            along += d * point.product();
            f32 d_product = of_row * d;
            f32 slope = point.sigmoid * (1.0f + point.alpha * point.gate * (1.0f - point.sigmoid));
            set(gate[i], point.gate_passes ? d_product * point.linear * slope : 0.0f);
            set(up[i], point.up_passes ? d_product * point.gate * point.sigmoid : 0.0f);
        }
        if (d_scale) {
            along = block_sum(along);
            if (threadIdx.x == 0) d_scale[row] = along;
        }
    }
}
