/* gather_rows and scatter_rows: rows of [B, n, H, width] into slot order and back.
 *
 *     order          3 0 5 1 4 2
 *     gather    target[slot]  = source[order[slot]]      3 0 5 1 4 2   <-   0 1 2 3 4 5
 *     scatter   target[order[slot]] = source[slot]       0 1 2 3 4 5   <-   3 0 5 1 4 2
 *
 * Elements are moved as bits (ELEMENT: uint or ushort), so NaN payloads stay. Grid: slot, head, batch entry, each walked in strides.
 */
__kernel void move_rows(const sattn_rows_params params, __global const uint *order, __global const ELEMENT *source,
                        __global ELEMENT *target) {
  for (long b = get_global_id(2); b < params.batch; b += get_global_size(2)) {
    for (long h = get_global_id(1); h < params.heads; h += get_global_size(1)) {
      __global const uint *tokens = order + params.order.offset + b * params.order.stride_batch + h * params.order.stride_head;
      for (long slot = get_global_id(0); slot < params.tokens; slot += get_global_size(0)) {
        long token = tokens[slot];
        long from = params.inverse ? slot : token, to = params.inverse ? token : slot;
        __global const ELEMENT *source_row = source + params.source.offset + b * params.source.stride_batch +
                                             from * params.source.stride_token + h * params.source.stride_head;
        __global ELEMENT *target_row = target + params.target.offset + b * params.target.stride_batch + to * params.target.stride_token +
                                       h * params.target.stride_head;
        for (int c = 0; c < params.width; ++c) target_row[c] = source_row[c];
      }
    }
  }
}
