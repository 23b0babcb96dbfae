// What kernels of all operations share. Nothing is included: a kernel has no header to find when it is compiled.
// X and W are the formats of activations and of weights, f32 or bf16. Blocks are lines of whole warps.

typedef unsigned int u32;
typedef int i32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;

// The upper half of an f32.
struct bf16 {
    unsigned short v;
};

#define KERNEL extern "C" __global__ void
#define INLINE static __device__ __forceinline__
#define INLINE_MEMBER __device__ __forceinline__

#define ALL_LANES 0xffffffffu
#define LANE (threadIdx.x & 31)
#define WARP (threadIdx.x >> 5)
#define WARPS (blockDim.x >> 5)
#define INFINITE __int_as_float(0x7f800000)

// Rows, one to a block; columns, one to a thread; elements, one to a thread of all blocks; each goes on to the next.
#define ROWS(row, n) (u64 row = blockIdx.x; row < (n); row += gridDim.x)
#define COLUMNS(column, n) (u32 column = threadIdx.x; column < (n); column += blockDim.x)
#define EACH(i, n) \
    (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (u64)gridDim.x * blockDim.x)

INLINE f32 to(f32 x) {
    return x;
}

INLINE f32 to(bf16 x) {
    return __uint_as_float((u32)x.v << 16);
}

INLINE void set(f32 &out, f32 x) {
    out = x;
}

// The nearest, the even one of two equally near.
INLINE void set(bf16 &out, f32 x) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.v) : "f"(x));
}

// As it is after it was stored.
template <class T> INLINE f32 rounded(f32 x) {
    T stored;
    set(stored, x);
    return to(stored);
}

INLINE f32 sigmoid(f32 x) {
    return 1.0f / (1.0f + expf(-x));
}

INLINE f32 warp_sum(f32 x) {
    for (u32 distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(ALL_LANES, x, distance);
    return x;
}

INLINE f32 warp_max(f32 x) {
    for (u32 distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, distance));
    return x;
}

// The sum over a block, for all of its threads, always in the same order.
static __device__ f32 block_sum(f32 x) {
    __shared__ f32 of_warp[32];
    x = warp_sum(x);
    // The sum before has been read.
    __syncthreads();
    if (LANE == 0) of_warp[WARP] = x;
    __syncthreads();
    x = of_warp[0];
    for (u32 warp = 1; warp < WARPS; warp++) x += of_warp[warp];
    return x;
}

static __device__ f32 block_max(f32 x) {
    __shared__ f32 of_warp[32];
    x = warp_max(x);
    __syncthreads();
    if (LANE == 0) of_warp[WARP] = x;
    __syncthreads();
    x = of_warp[0];
    for (u32 warp = 1; warp < WARPS; warp++) x = fmaxf(x, of_warp[warp]);
    return x;
}

// sums [width] += term(row, column) over all rows: 32 columns to a block, of which each warp adds some rows, and the
// first one what all have added. Blocks are of at most 8 warps.
template <class Term> INLINE void column_sums(f32 *sums, u64 rows, u32 width, Term term) {
    __shared__ f32 of_warp[8 * 32];
    for (u32 first = blockIdx.x * 32; first < width; first += gridDim.x * 32) {
        u32 column = first + LANE;
        f32 sum = 0.0f;
        if (column < width) {
            for (u64 row = WARP; row < rows; row += WARPS) sum += term(row, column);
        }
        __syncthreads();
        of_warp[threadIdx.x] = sum;
        __syncthreads();
        if (WARP == 0 && column < width) {
            sum = of_warp[LANE];
            for (u32 warp = 1; warp < WARPS; warp++) sum += of_warp[warp * 32 + LANE];
            sums[column] += sum;
        }
    }
}
