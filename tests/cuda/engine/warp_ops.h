// What a warp does as one: shuffles, votes, matrix loads and products. Values come
// as one array of 32 lanes per register, so both engines can call these.
#ifndef SATTN_SIM_WARP_OPS_H
#define SATTN_SIM_WARP_OPS_H

#include "state.h"

namespace sattn_sim {

using Lanes = uint32_t[warp_size];

enum class Shuffle { up, down, butterfly, index };
enum class Reduction { add, min_signed, max_signed, min_unsigned, max_unsigned, bit_and, bit_or, bit_xor };

// As shfl.sync: `b` is the lane or distance, `c` packs clamp and segment mask. Bit l of
// `in_range` is lane l's predicate. Reading a lane outside `mask` is an error.
void shuffle(Shuffle mode, const Lanes &value, const Lanes &b, const Lanes &c, uint32_t mask, Lanes &result, uint32_t &in_range,
             const Site &site);
uint32_t reduce(Reduction how, const Lanes &value, uint32_t mask);

// Matrices count = 1, 2 or 4; lane l of the first 8 count lanes gives a row's address.
void ldmatrix(unsigned warp, int count, bool trans, const Lanes &address, Lanes *result, const Site &site);
void movmatrix(const Lanes &from, Lanes &result);

// d = a b + c, fragments as the PTX ISA lays them out.
void mma_m16n8k16(bool bf16, Lanes *d, const Lanes *a, const Lanes *b, const Lanes *c);

}  // namespace sattn_sim
#endif
