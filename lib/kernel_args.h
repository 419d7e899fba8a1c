/* From the arguments of a call to the parameter structs of kernels (kernel_params.h), and where the arrays of the general path lie in the
 * workspace: what is the same for every device backend. Buffers themselves are passed on in each backend's own way. */
#ifndef SATTN_LIB_KERNEL_ARGS_H
#define SATTN_LIB_KERNEL_ARGS_H

#include "kernel_params.h"
#include "objects.h"

/* Strides are resolved already. */
sattn_kernel_tensor sattn_kernel_place(const sattn_tensor *tensor);

/* Everything that does not depend on slots and selection; those fields are zero. */
void sattn_general_describe(const sattn_problem *problem, const sattn_forward_args *args, sattn_general_params *out_params);

void sattn_rows_describe(const sattn_rows_args *args, int inverse, sattn_rows_params *out_params);
void sattn_merge_describe(const sattn_merge_args *args, sattn_merge_params *out_params);

/* ---- slots: only for modes with an SA band ---- */

/* Byte offsets in the workspace. O(keys) per permutation. */
typedef struct sattn_slots_layout {
  uint64_t slots, compact, counts;
} sattn_slots_layout;

/* What the attention kernels read. */
typedef struct sattn_slots_result {
  bool compacted; /* the order to read is in the workspace, else it is the permutation's own; slots always are in the workspace */
  sattn_kernel_orders order, slots;
  int32_t order_length; /* slots that there are; 0: as many as tokens exist */
} sattn_slots_result;

sattn_slots_layout sattn_slots_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end);

/* With result->compacted the kernels slots_count and slots_write are to run, one item per chunk; else slots_invert, one per entry. */
void sattn_slots_describe(const sattn_problem *problem, const sattn_sizes *sizes, const sattn_permutation *permutation,
                          const sattn_array *lengths, const sattn_slots_layout *layout, sattn_slots_params *out_params,
                          sattn_slots_result *out_result);

/* ---- selection: only for MoBA ---- */

/* Byte offsets in the workspace, and sizes. O(keys / block * head_dim + queries * topk). */
typedef struct sattn_select_layout {
  uint64_t means, scores, selected;
  int64_t blocks; /* of all keys */
  int64_t places; /* of a query in scores and in the workspace's own selected: min(topk, blocks) */
} sattn_select_layout;

sattn_select_layout sattn_select_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end);

/* Fills in the fields that selection decides. The selection goes to the caller's saved array if there is one, else to the workspace. */
void sattn_select_describe(const sattn_problem *problem, const sattn_forward_args *args, const sattn_select_layout *layout,
                           sattn_general_params *params);

/* ---- the general kernels ---- */

/* What forward keeps in its workspace; parts that a mode has no use for are zero. */
typedef struct sattn_general_layout {
  sattn_slots_layout slots;
  sattn_select_layout select;
} sattn_general_layout;

sattn_general_layout sattn_general_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end);

/* Byte offsets in the workspace. O(keys + queries). */
typedef struct sattn_grad_layout {
  sattn_slots_layout slots; /* only for modes with an SA band */
  uint64_t deltas;
} sattn_grad_layout;

sattn_grad_layout sattn_grad_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end);

/* For the list of implementations (dispatch.h): nothing is beyond the general kernels. */
bool sattn_supports_all(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason);
uint64_t sattn_general_workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima);
uint64_t sattn_grad_workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima);

/* Everything but slots, whose fields are zero. */
void sattn_grad_describe(const sattn_problem *problem, const sattn_backward_args *args, const sattn_grad_layout *layout,
                         sattn_general_grad_params *out_params);

#endif
