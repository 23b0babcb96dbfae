// Test kernels: correct ones. Compiled by NVRTC 13.0.88 with --gpu-architecture=compute_80.

struct bf16 { unsigned short v; };

__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float((unsigned)x.v << 16); }
__device__ __forceinline__ bf16 narrow(float x) {
    bf16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.v) : "f"(x));
    return r;
}
__device__ __forceinline__ float warp_sum(float x) {
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        c[i] = a[i] + b[i];
}

// One block a row: sums in shared memory, halving.
extern "C" __global__ void row_sum(const float* x, float* out, int columns) {
    __shared__ float partial[256];
    float s = 0.f;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) s += x[blockIdx.x * (size_t)columns + c];
    partial[threadIdx.x] = s;
    __syncthreads();
    for (int o = blockDim.x / 2; o > 0; o >>= 1) {
        if (threadIdx.x < o) partial[threadIdx.x] += partial[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

// One block a row, RMS norm in bf16 through warp shuffles.
extern "C" __global__ void rms_norm(const bf16* x, const bf16* w, bf16* y, int columns, float eps) {
    __shared__ float warps[32];
    const bf16* row = x + blockIdx.x * (size_t)columns;
    float s = 0.f;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) { float v = widen(row[c]); s += v * v; }
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = s;
    __syncthreads();
    float t = threadIdx.x < (blockDim.x >> 5) ? warps[threadIdx.x] : 0.f;
    if (threadIdx.x < 32) { t = warp_sum(t); if (threadIdx.x == 0) warps[0] = t; }
    __syncthreads();
    float r = rsqrtf(warps[0] / columns + eps);
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        y[blockIdx.x * (size_t)columns + c] = narrow(widen(row[c]) * r * widen(w[c]));
}

extern "C" __global__ void to_bf16(const float* x, bf16* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = narrow(x[i]);
}

// A stable counting sort's last pass: one block an expert, places by ballot prefix.
extern "C" __global__ void scatter_expert(const int* expert_of, const int* first, int* place, int n) {
    __shared__ int counts[32];
    int e = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    int base = first[e];
    for (int start = 0; start < n; start += blockDim.x) {
        int i = start + threadIdx.x;
        bool mine = i < n && expert_of[i] == e;
        unsigned votes = __ballot_sync(0xffffffffu, mine);
        if (lane == 0) counts[warp] = __popc(votes);
        __syncthreads();
        int before = 0, total = 0;
        for (int w = 0; w < warps; ++w) { if (w < warp) before += counts[w]; total += counts[w]; }
        if (mine) place[i] = base + before + __popc(votes & ((1u << lane) - 1));
        base += total;
        __syncthreads();
    }
}

extern "C" __global__ void histogram(const int* expert_of, unsigned* counts, float* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { atomicAdd(&counts[expert_of[i]], 1u); atomicAdd(sum, 1.0f); }
}

// Softmax over a row and the best entry, the lowest index of a tie.
extern "C" __global__ void softmax_top1(const float* x, float* y, int* best, int columns) {
    const float* row = x + blockIdx.x * (size_t)columns;
    float m = -__int_as_float(0x7f800000); int at = 0x7fffffff;
    for (int c = threadIdx.x; c < columns; c += 32) if (row[c] > m) { m = row[c]; at = c; }
    for (int o = 16; o > 0; o >>= 1) {
        float om = __shfl_xor_sync(0xffffffffu, m, o); int oat = __shfl_xor_sync(0xffffffffu, at, o);
        if (om > m || (om == m && oat < at)) { m = om; at = oat; }
    }
    float s = 0.f;
    for (int c = threadIdx.x; c < columns; c += 32) s += expf(row[c] - m);
    s = warp_sum(s);
    for (int c = threadIdx.x; c < columns; c += 32) y[blockIdx.x * (size_t)columns + c] = expf(row[c] - m) / s;
    if (threadIdx.x == 0) best[blockIdx.x] = at;
}

extern "C" __global__ void elementary(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[8 * i] = expf(v); y[8 * i + 1] = logf(fabsf(v) + 1e-3f); y[8 * i + 2] = sinf(v); y[8 * i + 3] = cosf(v);
    y[8 * i + 4] = tanhf(v); y[8 * i + 5] = powf(fabsf(v), 0.3f); y[8 * i + 6] = sqrtf(fabsf(v)); y[8 * i + 7] = 1.f / (1.f + __expf(-v));
}

extern "C" __global__ void adamw(bf16* w, const bf16* g, float* master, float* m, float* v, float lr, float b1, float b2,
                                 float eps, float decay, float c1, float c2, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = widen(g[i]);
    float mi = b1 * m[i] + (1.f - b1) * gi, vi = b2 * v[i] + (1.f - b2) * gi * gi;
    m[i] = mi; v[i] = vi;
    float p = master[i]; p -= lr * (mi / c1 / (sqrtf(vi / c2) + eps) + decay * p);
    master[i] = p; w[i] = narrow(p);
}

// A tiled product in shared memory, 16 by 16.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float ta[16][16], tb[16][16];
    int r = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float s = 0.f;
    for (int t = 0; t < k; t += 16) {
        ta[threadIdx.y][threadIdx.x] = r < m && t + threadIdx.x < k ? a[r * k + t + threadIdx.x] : 0.f;
        tb[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) s += ta[threadIdx.y][i] * tb[i][threadIdx.x];
        __syncthreads();
    }
    if (r < m && col < n) c[r * n + col] = s;
}

extern "C" __global__ void dynamic_reverse(int* x, int n) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

struct alignas(16) four { float x, y, z, w; };
extern "C" __global__ void scale4(const four* x, four* y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { four v = x[i]; v.x *= by; v.y *= by; v.z *= by; v.w *= by; y[i] = v; }
}

extern "C" __global__ void division(const long long* a, const long long* b, long long* q, unsigned* r, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { q[i] = a[i] / b[i]; r[i] = (unsigned)a[i] % (unsigned)(b[i] | 1); }
}

// Every lane keeps eight numbers in local memory, indexed by data.
extern "C" __global__ void local_pick(const int* which, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int held[8];
    for (int j = 0; j < 8; ++j) held[j] = (i < n ? which[(i + j) % n] : j) * (j + 1);
    if (i < n) { for (int j = 0; j < 8; ++j) held[which[i] & 7] += held[(which[i] + j) & 7]; out[i] = held[which[i] & 7]; }
}

__constant__ float table[4] = {1.f, 2.f, 4.f, 8.f};
extern "C" __global__ void by_table(const int* which, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table[which[i] & 3];
}
