// Sizes of the fp32 kernels that the host must know. Read by C and by CUDA.
#ifndef SATTN_CUDA_KERNELS_FP32_SHAPE_H
#define SATTN_CUDA_KERNELS_FP32_SHAPE_H

#define SATTN_FP32_ROWS(d)  ((d) > 128 ? 32 : 64)
#define SATTN_FP32_KEYS(d)  ((d) > 64 ? 32 : 64)
#define SATTN_FP32_PITCH(d) (((d) + 31) / 32 * 128)  // bytes of a row
#define SATTN_FP32_NOTES    128

// Query rows, keys, values, probabilities, 4 tiles of key numbers, 16 bytes per row, 16 per group, and the notes.
#define SATTN_FP32_SHARED(d)                                                                                           \
  ((SATTN_FP32_ROWS(d) + 2 * SATTN_FP32_KEYS(d)) * SATTN_FP32_PITCH(d) + SATTN_FP32_ROWS(d) * SATTN_FP32_KEYS(d) * 4 + \
   4 * SATTN_FP32_KEYS(d) * 8 + SATTN_FP32_ROWS(d) * 16 + 64 + SATTN_FP32_NOTES)

#endif
