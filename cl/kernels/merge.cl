/* Two partial results over disjoint sets of keys become one:
 *
 *     LSE = log(exp LSE_a + exp LSE_b)        O = exp(LSE_a - LSE) O_a + exp(LSE_b - LSE) O_b
 *
 * O [B, n_q, H, width], LSE [B, H, n_q]. A part with LSE = -infinity contributes nothing, whatever its O holds. Every element is read
 * before it is written, by the same work-item, so the result may lie in place of a part. Grid: query, head, batch entry, each walked in
 * strides.
 */

/* exp(lse - lse_max), without infinity minus infinity. */
static inline float share_of(float lse, float lse_max) {
  return lse == -INFINITY ? 0.0f : lse == lse_max ? 1.0f : exp(lse - lse_max);
}

__kernel void merge_rows(const sattn_merge_params params, __global const element *out_a, __global const float *lse_a,
                         __global const element *out_b, __global const float *lse_b, __global element *out, __global float *lse) {
  for (long b = get_global_id(2); b < params.batch; b += get_global_size(2)) {
    for (long h = get_global_id(1); h < params.heads; h += get_global_size(1)) {
      for (long i = get_global_id(0); i < params.queries; i += get_global_size(0)) {
        long row = (b * params.heads + h) * params.queries + i;
        float part_a = lse_a[params.lse_a + row], part_b = lse_b[params.lse_b + row];
        float larger = fmax(part_a, part_b);
        float share_a = share_of(part_a, larger), share_b = share_of(part_b, larger);
        float sum = share_a + share_b;
        float scale_a = share_a > 0.0f ? share_a / sum : share_a, scale_b = share_b > 0.0f ? share_b / sum : share_b;
        long at_a = params.out_a.offset + b * params.out_a.stride_batch + i * params.out_a.stride_token + h * params.out_a.stride_head;
        long at_b = params.out_b.offset + b * params.out_b.stride_batch + i * params.out_b.stride_token + h * params.out_b.stride_head;
        long at = params.out.offset + b * params.out.stride_batch + i * params.out.stride_token + h * params.out.stride_head;
        for (int c = 0; c < params.width; ++c) {
          float value = 0.0f;
          if (scale_a != 0.0f) value += scale_a * load_element(out_a, at_a + c);
          if (scale_b != 0.0f) value += scale_b * load_element(out_b, at_b + c);
          store_element(value, out, at + c);
        }
        if (lse) lse[params.lse + row] = sum > 0.0f || isnan(sum) ? larger + log(sum) : -INFINITY;
      }
    }
  }
}
