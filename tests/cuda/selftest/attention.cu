// Causal attention over an order, head dimension 64: a kernel with everything the
// engines must understand, in the shape the library's own kernels have. Rows are
// gathered through order[] by cp.async, two stages of keys and values.
//
//   block: 64 query slots of one head         keys of a tile: 64 slots
//   warp:  16 of the rows                      +------------+
//   lane:  g = lane / 4, t = lane % 4     g -> | 2t 2t+1 .. |  accumulator j: keys 8j + 2t, 2t + 1
//          rows g and g + 8               g+8  |            |
//                                              +------------+
// Shared memory: Q [64][64], K [2][64][64], V [2][64][64], tokens [2][64]; 16-byte
// chunks of a row are swizzled by row % 8.
#include "attention_params.h"
#include "gpu.h"

namespace {

constexpr int head_dim = 64, rows = 64, keys = 64, stages = selftest_stages, row_bytes = head_dim * 2;
constexpr uint32_t q_base = 0, k_base = rows * row_bytes, v_base = k_base + stages * keys * row_bytes,
                   token_base = v_base + stages * keys * row_bytes;
static_assert(token_base + stages * keys * 4 == SELFTEST_ATTENTION_SHARED, "shared memory layout");

struct Place {
  int thread, warp, lane, g, t, first_row, head;
};

struct Softmax {
  float max[2], sum[2];
};

GPU_DEVICE uint32_t swizzled(int row, int chunk) {
  if (gpu_fault("no_swizzle")) return (uint32_t)(row * row_bytes + chunk * 16);
  return (uint32_t)(row * row_bytes + ((chunk ^ (row & 7)) << 4));
}

GPU_DEVICE void load_rows(uint32_t base, const uint16_t *from, const int32_t *order, int64_t row_stride, int slot0, int n, int thread) {
  GPU_UNROLL
  for (int i = 0; i < keys * 8 / selftest_threads; ++i) {
    const int row = thread / 8 + i * (selftest_threads / 8), chunk = thread % 8, slot = slot0 + row;
    const bool inside = slot < n;
    const int token = inside || gpu_fault("order_past_tail") ? gpu_load(order + slot) : 0;
    if (inside || !gpu_fault("tail_unwritten"))
      gpu_cp_async<16>(base + swizzled(row, chunk), from + token * row_stride + chunk * 8, inside ? 16u : 0u);
  }
}

GPU_DEVICE void load_tile(const selftest_attention_params &p, gpu_shared<unsigned char> shared, const Place &at, int tile, int stage) {
  const uint32_t base = gpu_shared_address(shared);
  const int64_t head = at.head * p.head_stride;
  const int32_t *order = p.order + (int64_t)at.head * p.n;
  load_rows(base + k_base + stage * keys * row_bytes, (const uint16_t *)p.k + head, order, p.row_stride, tile * keys, p.n, at.thread);
  load_rows(base + v_base + stage * keys * row_bytes, (const uint16_t *)p.v + head, order, p.row_stride, tile * keys, p.n, at.thread);
  const gpu_shared<int32_t> token = gpu_shared_cast<int32_t>(shared, token_base);
  if (at.thread < keys) {
    const int slot = tile * keys + at.thread;
    token[stage * keys + at.thread] = slot < p.n ? gpu_load(order + slot) : 0x7fffffff;
  }
}

template <class T>
GPU_DEVICE void scores(float (*s)[4], const uint32_t (*q)[4], uint32_t k, const Place &at) {
  GPU_UNROLL
  for (int j = 0; j < 8; ++j) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.f;
  GPU_UNROLL
  for (int j = 0; j < 8; j += 2) GPU_UNROLL
  for (int kk = 0; kk < 4; ++kk) {
    uint32_t b[4];  // keys 8j..: dims low, high; keys 8j + 8..: dims low, high
    gpu_ldmatrix_x4(b, k + swizzled(j * 8 + at.lane / 16 * 8 + at.lane % 8, kk * 2 + at.lane / 8 % 2));
    T::mma(s[j], q[kk], b, s[j]);
    T::mma(s[j + 1], q[kk], b + 2, s[j + 1]);
  }
}

GPU_DEVICE void mask_scores(float (*s)[4], const selftest_attention_params &p, gpu_shared<int32_t> token, const int *row_token, int slot0,
                            const Place &at) {
  const int reach = gpu_fault("window_too_wide") ? p.window + 1 : p.window;
  GPU_UNROLL
  for (int j = 0; j < 8; ++j) GPU_UNROLL
  for (int e = 0; e < 2; ++e) {
    const int column = j * 8 + at.t * 2 + (gpu_fault("mask_column") ? 1 - e : e);
    const int key = token[column];
    GPU_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int away = slot0 + column - (at.first_row + r * 8);
      const bool seen = away < reach && -away < p.window && key <= row_token[r];
      s[j][2 * r + e] = seen ? s[j][2 * r + e] : -GPU_INFINITY;
    }
  }
}

// Rows of a warp lie across the four lanes of a quad.
GPU_DEVICE float quad_max(float x, const Place &at) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  if (!gpu_fault("divergent_shuffle") || at.g < 4) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
  return x;
}

GPU_DEVICE void online_softmax(float (*s)[4], float (*o)[4], Softmax &m, float scale_log2, const Place &at) {
  GPU_UNROLL
  for (int r = 0; r < 2; ++r) {
    float top = m.max[r];
    GPU_UNROLL
    for (int j = 0; j < 8; ++j) top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
    top = quad_max(top, at);
    // A row without a visible key yet has no maximum: 0 keeps Inf - Inf away.
    const float zero = top == -GPU_INFINITY ? 0.f : top * scale_log2;
    const float factor = gpu_exp2(m.max[r] * scale_log2 - zero);
    m.max[r] = top;
    m.sum[r] *= factor;
    GPU_UNROLL
    for (int j = 0; j < 8; ++j) GPU_UNROLL
    for (int e = 0; e < 2; ++e) {
      float &x = s[j][2 * r + e];
      x = gpu_exp2(x * scale_log2 - zero);
      m.sum[r] += x;
      o[j][2 * r + e] *= factor;
    }
  }
}

template <class T>
GPU_DEVICE void weigh_values(float (*o)[4], const float (*s)[4], uint32_t v, const Place &at) {
  GPU_UNROLL
  for (int kk = 0; kk < 4; ++kk) {
    // the accumulators of two key groups are the A fragment of one product
    const float *low = s[2 * kk], *high = s[2 * kk + 1];
    uint32_t a[4] = {T::pack(low[0], low[1]), T::pack(low[2], low[3]), T::pack(high[0], high[1]), T::pack(high[2], high[3])};
    if (gpu_fault("fragment_swapped")) {
      const uint32_t a1 = a[1];
      a[1] = a[2];
      a[2] = a1;
    }
    GPU_UNROLL
    for (int j = 0; j < 8; j += 2) {
      uint32_t b[4];
      const uint32_t from = v + swizzled(kk * 16 + at.lane % 16, j + at.lane / 16);
      if (gpu_fault("trans_forgotten"))
        gpu_ldmatrix_x4(b, from);
      else
        gpu_ldmatrix_x4_trans(b, from);
      T::mma(o[j], a, b, o[j]);
      T::mma(o[j + 1], a, b + 2, o[j + 1]);
    }
  }
}

template <class T>
GPU_DEVICE void write_rows(const selftest_attention_params &p, float (*o)[4], Softmax &m, const int *row_token, const Place &at) {
  uint16_t *out = (uint16_t *)p.o + at.head * p.head_stride;
  float *lse = p.lse + (int64_t)at.head * p.n;
  GPU_UNROLL
  for (int r = 0; r < 2; ++r) {
    float sum = m.sum[r];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (at.first_row + r * 8 >= p.n && !gpu_fault("tail_written")) continue;
    const float inverse = gpu_reciprocal(sum);
    GPU_UNROLL
    for (int j = 0; j < 8; ++j)
      gpu_store((uint32_t *)(out + row_token[r] * p.row_stride + j * 8 + at.t * 2),
                T::pack(o[j][2 * r] * inverse, o[j][2 * r + 1] * inverse));
    if (at.t == 0 || gpu_fault("four_writers")) gpu_store(lse + row_token[r], m.max[r] * p.scale + gpu_log2(sum) * 0.693147181f);
  }
}

template <class T>
GPU_DEVICE void attend(const selftest_attention_params &p) {
  GPU_DYNAMIC_SHARED(unsigned char, shared);
  const uint32_t base = gpu_shared_address(shared);
  const gpu_shared<int32_t> token = gpu_shared_cast<int32_t>(shared, token_base);
  Place at;
  at.thread = (int)threadIdx.x;
  at.warp = at.thread / 32;
  at.lane = at.thread % 32;
  at.g = at.lane / 4;
  at.t = at.lane % 4;
  at.head = (int)blockIdx.y;
  const int q0 = (int)blockIdx.x * rows;
  at.first_row = q0 + at.warp * 16 + at.g;
  const int32_t *order = p.order + (int64_t)at.head * p.n;

  const int first = gpu_max(q0 - p.window + 1, 0), last = gpu_min(q0 + rows - 1 + p.window - 1, p.n - 1);
  const int tile0 = first / keys, tile1 = last / keys;
  load_rows(base + q_base, (const uint16_t *)p.q + at.head * p.head_stride, order, p.row_stride, q0, p.n, at.thread);
  load_tile(p, shared, at, tile0, 0);
  gpu_cp_async_commit();
  int row_token[2];
  GPU_UNROLL
  for (int r = 0; r < 2; ++r) row_token[r] = at.first_row + r * 8 < p.n ? gpu_load(order + at.first_row + r * 8) : -1;

  uint32_t q[4][4];
  float o[8][4];
  Softmax m = {{-GPU_INFINITY, -GPU_INFINITY}, {0.f, 0.f}};
  GPU_UNROLL
  for (int j = 0; j < 8; ++j) o[j][0] = o[j][1] = o[j][2] = o[j][3] = 0.f;
  for (int tile = tile0; tile <= tile1; ++tile) {
    const int stage = (tile - tile0) % stages;
    if (tile < tile1) load_tile(p, shared, at, tile + 1, stage ^ 1);
    gpu_cp_async_commit();
    if (gpu_fault("weak_copy_wait"))
      gpu_cp_async_wait<2>();
    else if (!gpu_fault("no_copy_wait"))
      gpu_cp_async_wait<1>();
    if (!gpu_fault("no_barrier_after_wait")) __syncthreads();
    if (tile == tile0) GPU_UNROLL
    for (int kk = 0; kk < 4; ++kk) gpu_ldmatrix_x4(q[kk], base + q_base + swizzled(at.warp * 16 + at.lane % 16, kk * 2 + at.lane / 16));
    float s[8][4];
    scores<T>(s, q, base + k_base + stage * keys * row_bytes, at);
    mask_scores(s, p, token + stage * keys, row_token, tile * keys, at);
    online_softmax(s, o, m, p.scale_log2, at);
    weigh_values<T>(o, s, base + v_base + stage * keys * row_bytes, at);
    if (!gpu_fault("no_barrier_before_refill")) __syncthreads();
  }
  write_rows<T>(p, o, m, row_token, at);
}

}  // namespace

GPU_KERNEL(selftest_attention_f16, selftest_threads)(const GPU_GRID_CONSTANT selftest_attention_params p) {
  attend<gpu_f16>(p);
}
GPU_KERNEL(selftest_attention_bf16, selftest_threads)(const GPU_GRID_CONSTANT selftest_attention_params p) {
  attend<gpu_bf16>(p);
}
GPU_REGISTER_KERNEL(selftest_attention_f16, selftest_threads);
GPU_REGISTER_KERNEL(selftest_attention_bf16, selftest_threads);
