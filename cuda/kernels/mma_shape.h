// Sizes of the tensor-core kernels that the host must know. Read by C and by CUDA.
#ifndef SATTN_CUDA_KERNELS_MMA_SHAPE_H
#define SATTN_CUDA_KERNELS_MMA_SHAPE_H

#define SATTN_MMA_ROWS(d) ((d) > 128 ? 64 : 128)
#define SATTN_MMA_KEYS(d) ((d) >= 96 ? 32 : 64)

#define SATTN_MMA_NOTES   128

// Query rows, keys and values (two stages up to d = 128), 4 tiles of key numbers, 16 bytes per row, 16 per
// group, and the notes.
#define SATTN_MMA_SHARED(d) \
  (SATTN_MMA_ROWS(d) * (2 * (d) + 17) + ((d) <= 128 ? 4 : 2) * SATTN_MMA_KEYS(d) * 2 * (d) + 4 * SATTN_MMA_KEYS(d) * 8 + SATTN_MMA_NOTES)

#endif
