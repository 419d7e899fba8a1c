/* From orders to slots: slot[token] for every token that exists, and, where lengths leave gaps, the order without them.
 *
 *     order    [length]  slot -> token          3 0 5 1 4 2
 *     compact  [keys]    tokens < 4 only        3 0 1 2          (kernels count and compact; what follows the end is not written)
 *     slots    [keys]    token -> slot          1 2 3 0          (tokens that do not exist are not written)
 *
 * Each order is cut into chunks; one work-item counts the tokens of a chunk that exist, then writes them behind those of the chunks before.
 * There are at most 1024 chunks, so adding up their counts is cheap. No barrier, no atomic; every entry has one writer.
 */

/* Without gaps: the inverse of the order. Grid: slot, head row, batch row. */
__kernel void slots_invert(const sattn_slots_params params, __global const uint *order, __global uint *slots) {
  for (long b = get_global_id(2); b < params.batch_rows; b += get_global_size(2)) {
    for (long g = get_global_id(1); g < params.head_rows; g += get_global_size(1)) {
      __global const uint *tokens = order + params.order.offset + b * params.order.stride_batch + g * params.order.stride_head;
      __global uint *target = slots + params.slots + (b * params.head_rows + g) * params.keys;
      for (long s = get_global_id(0); s < params.order_length; s += get_global_size(0)) {
        uint token = tokens[s];
        if (token < (uint)params.keys) target[token] = (uint)s;
      }
    }
  }
}

/* How many tokens of each chunk exist. Grid: chunk, head row, batch entry. */
__kernel void slots_count(const sattn_slots_params params, __global const uint *order, __global const int *lengths, __global uint *counts) {
  for (long b = get_global_id(2); b < params.batch_rows; b += get_global_size(2)) {
    uint length = (uint)clamp(lengths[params.lengths + b], 0, params.keys);
    for (long g = get_global_id(1); g < params.head_rows; g += get_global_size(1)) {
      __global const uint *tokens = order + params.order.offset + b * params.order.stride_batch + g * params.order.stride_head;
      for (long c = get_global_id(0); c < params.chunks; c += get_global_size(0)) {
        long end = min((c + 1) * params.chunk, (long)params.keys);
        uint count = 0;
        for (long s = c * params.chunk; s < end; ++s) count += tokens[s] < length;
        counts[params.counts + (b * params.head_rows + g) * params.chunks + c] = count;
      }
    }
  }
}

/* The existing tokens of each chunk, in order, and their slots. Same grid. */
__kernel void slots_write(const sattn_slots_params params, __global const uint *order, __global const int *lengths,
                          __global const uint *counts, __global uint *compact, __global uint *slots) {
  for (long b = get_global_id(2); b < params.batch_rows; b += get_global_size(2)) {
    uint length = (uint)clamp(lengths[params.lengths + b], 0, params.keys);
    for (long g = get_global_id(1); g < params.head_rows; g += get_global_size(1)) {
      __global const uint *tokens = order + params.order.offset + b * params.order.stride_batch + g * params.order.stride_head;
      long row = b * params.head_rows + g;
      for (long c = get_global_id(0); c < params.chunks; c += get_global_size(0)) {
        uint slot = 0;
        for (long before = 0; before < c; ++before) slot += counts[params.counts + row * params.chunks + before];
        long end = min((c + 1) * params.chunk, (long)params.keys);
        for (long s = c * params.chunk; s < end; ++s) {
          uint token = tokens[s];
          if (token >= length) continue;
          compact[params.compact + row * params.keys + slot] = token;
          slots[params.slots + row * params.keys + token] = slot++;
        }
      }
    }
  }
}
