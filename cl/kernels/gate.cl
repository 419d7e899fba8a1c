/* What the matrix products of the gate projection leave to do; all arrays fp32, row-major, contiguous.
 *
 *     forward    G [rows, outputs] starts as the bias in every row (or zero); the product X W^T is added to it
 *     backward   dbias [outputs] = column sums of dG [rows, outputs]
 */

/* Grid: element of the matrix, walked in strides. Without bias: zeros. */
__kernel void gate_fill(const sattn_gate_params params, __global const float *bias, __global float *matrix) {
  long count = params.rows * params.columns;
  for (long at = get_global_id(0); at < count; at += get_global_size(0)) {
    matrix[params.matrix + at] = bias ? bias[params.vector + at % params.columns] : 0.0f;
  }
}

/* Grid: column. One work-item adds a column from top to bottom, with Kahan's compensation. */
__kernel void gate_column_sums(const sattn_gate_params params, __global const float *matrix, __global float *sums) {
  for (long c = get_global_id(0); c < params.columns; c += get_global_size(0)) {
    float sum = 0.0f, error = 0.0f;
    for (long r = 0; r < params.rows; ++r) {
      float corrected = matrix[params.matrix + r * params.columns + c] - error;
      float next = sum + corrected;
      float lost = (next - sum) - corrected;
      error = isfinite(lost) ? lost : 0.0f;
      sum = next;
    }
    sums[params.vector + c] = sum;
  }
}
