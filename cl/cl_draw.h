/* Permutations drawn on the device (kernels/draw.cl). */
#ifndef SATTN_CL_DRAW_H
#define SATTN_CL_DRAW_H

#include "backend.h"

sattn_status sattn_cl_draw_orders(sattn_permutation *permutation, const sattn_permutation_key *key, sattn_error *error);

#endif
