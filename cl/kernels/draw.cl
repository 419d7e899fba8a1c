/* Permutations, drawn and sorted on the device: the tokens 0..length-1 by (sort key, token), ascending (permutation format 1).
 *
 *     keys    [rows][padded]  64-bit sort keys, from philox.h              draw_keys
 *     tokens  [rows][padded]  uint32, moved along with the keys            draw_step, for each (run, stride) of a bitonic network
 *     order   [rows][length]  the first `length` tokens                    draw_store
 *
 * padded is the next power of two. Entries behind the tokens have the largest key and tokens >= length, so they sort behind every token.
 * The network is fixed and all (key, token) pairs differ, so the result does not depend on the device. No barrier: one launch per step.
 */
static inline int is_after(ulong key_a, uint token_a, ulong key_b, uint token_b) {
  return key_a > key_b || (key_a == key_b && token_a > token_b);
}

/* Grid of the three: entry (for draw_step: pair of entries), row. */
__kernel void draw_keys(const sattn_draw_params params, __global ulong *keys, __global uint *tokens) {
  for (long row = get_global_id(1); row < params.rows; row += get_global_size(1)) {
    for (long i = get_global_id(0); i < params.padded; i += get_global_size(0)) {
      ulong key = 0xffffffffffffffffUL;
      if (i < params.length) {
        key = sattn_sort_key((uint)i, (ulong)params.seed, (uint)params.layer, (uint)params.substream + (uint)row, (uint)params.step);
      }
      keys[row * params.padded + i] = key;
      tokens[row * params.padded + i] = (uint)i;
    }
  }
}

__kernel void draw_step(const sattn_draw_params params, __global ulong *keys, __global uint *tokens) {
  for (long row = get_global_id(1); row < params.rows; row += get_global_size(1)) {
    __global ulong *row_keys = keys + row * params.padded;
    __global uint *row_tokens = tokens + row * params.padded;
    for (long pair = get_global_id(0); pair < params.padded / 2; pair += get_global_size(0)) {
      long low = pair / params.stride * 2 * params.stride + pair % params.stride, high = low + params.stride;
      int ascending = (low & params.run) == 0;
      ulong key_low = row_keys[low], key_high = row_keys[high];
      uint token_low = row_tokens[low], token_high = row_tokens[high];
      if (is_after(key_low, token_low, key_high, token_high) != ascending) continue;
      row_keys[low] = key_high;
      row_keys[high] = key_low;
      row_tokens[low] = token_high;
      row_tokens[high] = token_low;
    }
  }
}

__kernel void draw_store(const sattn_draw_params params, __global const uint *tokens, __global uint *order) {
  for (long row = get_global_id(1); row < params.rows; row += get_global_size(1)) {
    for (long i = get_global_id(0); i < params.length; i += get_global_size(0)) {
      order[(params.first_row + row) * params.length + i] = tokens[row * params.padded + i];
    }
  }
}
