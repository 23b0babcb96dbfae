// Test kernels: each with one planted bug. Compiled by NVRTC 13.0.88 with --gpu-architecture=compute_80.

// The barrier between writing and reading a neighbour's element is missing.
extern "C" __global__ void missing_barrier(const float* x, float* y) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x];
}

// `<=` instead of `<`.
extern "C" __global__ void out_of_bounds(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = 1.f;
}

// A float read at a byte address.
extern "C" __global__ void misaligned(const char* x, float* y) {
    y[threadIdx.x] = *(const float*)(x + 4 * threadIdx.x + 1);
}

// The mask names the warp, half of it is elsewhere.
extern "C" __global__ void absent_lane(int* y) {
    int v = threadIdx.x;
    if (threadIdx.x < 16) v = __shfl_down_sync(0xffffffffu, v, 1) * 3;
    else v = __shfl_down_sync(0xffff0000u, v, 2) * 5;
    y[threadIdx.x] = v;
}

// Half of the tile is never written.
extern "C" __global__ void shared_uninitialised(float* y) {
    __shared__ float tile[256];
    if (threadIdx.x < blockDim.x / 2) tile[threadIdx.x] = 1.f;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}

// Shared memory past its end.
extern "C" __global__ void shared_out_of_bounds(float* y, int shift) {
    __shared__ float tile[64];
    tile[threadIdx.x + shift] = 1.f;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}

// The barrier is in a branch that half the block takes, and the other half waits at another one.
extern "C" __global__ void barrier_divergence(float* y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 1.f;
    if (threadIdx.x < 16) { __syncthreads(); y[threadIdx.x] = tile[63 - threadIdx.x]; }
    else { y[threadIdx.x] = 0.f; }
    if (threadIdx.x >= 16 && threadIdx.x < 32) { __syncthreads(); y[threadIdx.x] = tile[threadIdx.x - 16]; }
    if (threadIdx.x >= 32) { __syncthreads(); y[threadIdx.x] = tile[threadIdx.x - 1]; }
}

// A sum onto memory that nobody wrote.
extern "C" __global__ void accumulate_unwritten(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 1.f;
}

// A branch on memory that nobody wrote.
extern "C" __global__ void branch_on_unwritten(const int* flag, int* y) {
    if (flag[threadIdx.x] > 3) y[threadIdx.x] = 1; else y[2 * threadIdx.x] = 2;
}

// Two blocks write one global element without atomics.
extern "C" __global__ void global_race(int* y) { y[0] = y[0] + (int)blockIdx.x; }
