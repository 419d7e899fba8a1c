#include "warp_ops.h"
#include "number.h"
#include "shared_memory.h"

#include <algorithm>

namespace sattn_sim {

void shuffle(Shuffle mode, const Lanes &value, const Lanes &b, const Lanes &c, uint32_t mask, Lanes &result, uint32_t &in_range,
             const Site &site) {
  Lanes out = {};
  in_range = 0;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const int distance = (int)(b[lane] & 31), segment = (int)(c[lane] >> 8 & 31), clamp = (int)(c[lane] & 31);
    const int l = (int)lane, highest = (l & segment) | (clamp & ~segment), lowest = l & segment;
    int from = l;
    bool valid = false;
    switch (mode) {
      case Shuffle::up:
        from = l - distance;
        valid = from >= highest;
        break;
      case Shuffle::down:
        from = l + distance;
        valid = from <= highest;
        break;
      case Shuffle::butterfly:
        from = l ^ distance;
        valid = from <= highest;
        break;
      case Shuffle::index:
        from = lowest | (distance & ~segment);
        valid = from <= highest;
        break;
    }
    if (!valid) from = l;
    if (!(mask >> from & 1)) fail("sync", site, "shuffle: lane %d reads lane %d, which is not in mask %08x", l, from, mask);
    out[lane] = value[from];
    in_range |= (uint32_t)valid << lane;
  }
  for (unsigned lane = 0; lane < warp_size; ++lane)
    if (mask >> lane & 1) result[lane] = out[lane];
}

uint32_t reduce(Reduction how, const Lanes &value, uint32_t mask) {
  uint32_t r = value[__builtin_ctz(mask)];
  bool first = true;
  for (unsigned l = 0; l < warp_size; ++l) {
    if (!(mask >> l & 1) || (first && !(first = false))) continue;
    const uint32_t v = value[l];
    switch (how) {
      case Reduction::add:
        r += v;
        break;
      case Reduction::min_signed:
        r = (uint32_t)std::min((int32_t)r, (int32_t)v);
        break;
      case Reduction::max_signed:
        r = (uint32_t)std::max((int32_t)r, (int32_t)v);
        break;
      case Reduction::min_unsigned:
        r = std::min(r, v);
        break;
      case Reduction::max_unsigned:
        r = std::max(r, v);
        break;
      case Reduction::bit_and:
        r &= v;
        break;
      case Reduction::bit_or:
        r |= v;
        break;
      case Reduction::bit_xor:
        r ^= v;
        break;
    }
  }
  return r;
}

void ldmatrix(unsigned warp, int count, bool trans, const Lanes &address, Lanes *result, const Site &site) {
  ++state.report.counters.ldmatrix;
  for (int m = 0; m < count; ++m) {
    uint16_t matrix[8][8];
    uint32_t rows[warp_size] = {};
    for (unsigned i = 0; i < 8; ++i) {
      const uint32_t a = address[(unsigned)m * 8 + i];
      state.thread = warp * warp_size + (unsigned)m * 8 + i;
      memcpy(matrix[i], shared_read_for_warp(warp, a, 16, site), 16);
      rows[i] = a - shared_base;
    }
    unsigned groups = 0;
    for (unsigned i = 0; i < 8; ++i) groups |= 1u << (rows[i] / 16 % 8);
    if (groups != 0xff) state.report.counters.ldmatrix_conflicts += bank_passes(rows, 0xff, 16);
    for (unsigned l = 0; l < warp_size; ++l) {
      const unsigned i = l / 4, j = l % 4 * 2;
      result[m][l] = trans ? matrix[j][i] | (uint32_t)matrix[j + 1][i] << 16 : matrix[i][j] | (uint32_t)matrix[i][j + 1] << 16;
    }
  }
}

void movmatrix(const Lanes &from, Lanes &result) {
  uint16_t matrix[8][8];
  for (unsigned l = 0; l < warp_size; ++l) {
    matrix[l / 4][l % 4 * 2] = (uint16_t)from[l];
    matrix[l / 4][l % 4 * 2 + 1] = (uint16_t)(from[l] >> 16);
  }
  for (unsigned l = 0; l < warp_size; ++l) result[l] = matrix[l % 4 * 2][l / 4] | (uint32_t)matrix[l % 4 * 2 + 1][l / 4] << 16;
}

namespace {

struct Tiles {
  alignas(32) float a[16][16], b[16][8], c[16][8];
};

template <bool bf16>
float element(uint32_t pair, bool high) {
  const uint16_t h = (uint16_t)(high ? pair >> 16 : pair);
  return bf16 ? bf16_to_float(h) : half_to_float(h);
}

// Lane l holds, with g = l / 4 and t = l % 4: rows g and g + 8 of A and C, column g of B.
template <bool bf16>
void gather(Tiles &t, const Lanes *a, const Lanes *b, const Lanes *c) {
  for (unsigned l = 0; l < warp_size; ++l) {
    const unsigned g = l / 4, k = l % 4 * 2;
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned e = 0; e < 2; ++e) t.a[g + (i & 1) * 8][k + (i >> 1) * 8 + e] = element<bf16>(a[i][l], e);
    for (unsigned i = 0; i < 2; ++i)
      for (unsigned e = 0; e < 2; ++e) t.b[k + i * 8 + e][g] = element<bf16>(b[i][l], e);
    for (unsigned i = 0; i < 4; ++i) t.c[g + (i >> 1) * 8][k + (i & 1)] = bits<float>(c[i][l]);
  }
}

__attribute__((always_inline)) inline void multiply_rows(Tiles &t) {
  for (unsigned i = 0; i < 16; ++i) {
    float sum[8];
    for (unsigned n = 0; n < 8; ++n) sum[n] = t.c[i][n];
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned n = 0; n < 8; ++n) sum[n] += t.a[i][k] * t.b[k][n];
    for (unsigned n = 0; n < 8; ++n) t.c[i][n] = sum[n];
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
// Without fused multiply-add, so that every machine gives the same bits.
__attribute__((target("avx2"))) void multiply_avx2(Tiles &t) {
  multiply_rows(t);
}
#endif
void multiply_plain(Tiles &t) {
  multiply_rows(t);
}

void multiply(Tiles &t) {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) {
    multiply_avx2(t);
    return;
  }
#endif
  multiply_plain(t);
}

}  // namespace

void mma_m16n8k16(bool bf16, Lanes *d, const Lanes *a, const Lanes *b, const Lanes *c) {
  Tiles t;
  ++state.report.counters.mma;
  if (bf16)
    gather<true>(t, a, b, c);
  else
    gather<false>(t, a, b, c);
  multiply(t);
  for (unsigned l = 0; l < warp_size; ++l)
    for (unsigned i = 0; i < 4; ++i) d[i][l] = bits<uint32_t>(t.c[l / 4 + (i >> 1) * 8][l % 4 * 2 + (i & 1)]);
}

}  // namespace sattn_sim
