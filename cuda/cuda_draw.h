/* Permutations drawn on the device (kernels/draw.cu). */
#ifndef SATTN_CUDA_DRAW_H
#define SATTN_CUDA_DRAW_H

#include "backend.h"

sattn_status sattn_cuda_draw_orders(sattn_permutation *permutation, const sattn_permutation_key *key, sattn_error *error);

#endif
