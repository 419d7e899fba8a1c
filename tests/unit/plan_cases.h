/* FORWARD(label, mode, with options, change to a valid call, words that the message must contain), BACKWARD the same with a status;
 * included twice by test_plan.c. */
FORWARD(f_struct_size, SATTN_FULL, false, c->forward.struct_size = 0, "args.struct_size", "is 0")
FORWARD(f_saved_struct_size, SATTN_FULL, false, c->saved.struct_size = 4096, "saved.struct_size", "4096")
FORWARD(f_too_many_batches, SATTN_FULL, false, c->forward.sizes.batch = 3, "sizes.batch is 3", "at most 2")
FORWARD(f_too_many_queries, SATTN_FULL, false, c->forward.sizes.queries = 4, "sizes.queries is 4", "at most 3")
FORWARD(f_too_many_keys, SATTN_FULL, false, c->forward.sizes.keys = 5, "sizes.keys is 5", "at most 4")
FORWARD(f_more_queries_than_keys, SATTN_FULL, false, c->forward.sizes.keys = 2, "sizes.queries is 3", "keys, 2")
FORWARD(f_negative_batch, SATTN_FULL, false, c->forward.sizes.batch = -1, "sizes.batch is -1", NULL)
FORWARD(f_query_missing, SATTN_FULL, false, c->forward.query.buffer = NULL, "query is missing", NULL)
FORWARD(f_key_missing, SATTN_FULL, false, c->forward.key.buffer = NULL, "key is missing", NULL)
FORWARD(f_value_missing, SATTN_FULL, false, c->forward.value.buffer = NULL, "value is missing", NULL)
FORWARD(f_out_missing, SATTN_FULL, false, c->forward.out.buffer = NULL, "out is missing", NULL)
FORWARD(f_lse_missing, SATTN_FULL, false, c->forward.lse.buffer = NULL, "lse is missing", NULL)
FORWARD(f_lse_missing_gated, SATTN_GATED, false, c->forward.lse_swa.buffer = NULL, "lse_swa is missing", NULL)
FORWARD(f_lse_in_gated, SATTN_GATED, false, c->forward.lse = c->forward.lse_sa, "lse is given", NULL)
FORWARD(f_lse_sa_in_sa, SATTN_STOCHASTIC, false, c->forward.lse_sa = c->forward.lse, "lse_sa is given", NULL)
FORWARD(f_y_sa_missing, SATTN_GATED, false, c->saved.y_sa.buffer = NULL, "saved.y_sa is missing", NULL)
FORWARD(f_y_swa_given, SATTN_UNION, false, c->saved.y_swa.buffer = plan_case_buffer(c), "saved.y_swa is given", NULL)
FORWARD(f_selected_missing, SATTN_MOBA, false, c->saved.selected.buffer = NULL, "saved.selected is missing", NULL)
FORWARD(f_selected_given, SATTN_FULL, false, c->saved.selected.buffer = plan_case_buffer(c), "saved.selected is given", NULL)
FORWARD(f_gate_missing, SATTN_GATED, false, c->forward.gate_swa.buffer = NULL, "gate_swa is missing", NULL)
FORWARD(f_gate_given, SATTN_UNION, false, c->forward.gate_sa = c->forward.query, "gate_sa is given", NULL)
FORWARD(f_lengths_missing, SATTN_FULL, true, c->forward.lengths.buffer = NULL, "lengths is missing", NULL)
FORWARD(f_lengths_given, SATTN_FULL, false, c->forward.lengths.buffer = c->foreign, "lengths is given", NULL)
FORWARD(f_query_start_missing, SATTN_FULL, true, c->forward.query_start.buffer = NULL, "query_start is missing", NULL)
FORWARD(f_query_start_given, SATTN_FULL, false, c->forward.query_start.buffer = c->foreign, "query_start is given", NULL)
FORWARD(f_sink_logits_missing, SATTN_FULL, true, c->forward.sink_logits.buffer = NULL, "sink_logits is missing", NULL)
FORWARD(f_sink_logits_given, SATTN_FULL, false, c->forward.sink_logits.buffer = c->foreign, "sink_logits is given", NULL)
FORWARD(f_foreign_query, SATTN_FULL, false, c->forward.query.buffer = c->foreign, "query", "another context")
FORWARD(f_foreign_out, SATTN_FULL, false, c->forward.out.buffer = c->foreign, "out", "another context")
FORWARD(f_foreign_lse, SATTN_FULL, false, c->forward.lse.buffer = c->foreign, "lse", "another context")
FORWARD(f_offset_negative, SATTN_FULL, false, c->forward.key.offset = -1, "key.offset is -1", NULL)
FORWARD(f_offset_too_far, SATTN_FULL, false, c->forward.key.offset = 1024 - 40 + 1, "key", "4096 bytes")
FORWARD(f_offset_overflows, SATTN_FULL, false, c->forward.value.offset = INT64_MAX, "value", "4096 bytes")
FORWARD(f_lse_too_far, SATTN_FULL, false, c->forward.lse.offset = 1024 - 12 + 1, "lse", "4096 bytes")
FORWARD(f_lengths_too_far, SATTN_FULL, true, c->forward.lengths.offset = 1023, "lengths", "4096 bytes")
FORWARD(f_stride_negative, SATTN_FULL, false, (c->forward.query.stride_token = -10, c->forward.query.stride_head = 5), "query.stride_token",
        "-10")
FORWARD(f_stride_too_wide, SATTN_FULL, false,
        (c->forward.query.stride_batch = 1000, c->forward.query.stride_token = 10, c->forward.query.stride_head = 5), "query",
        "1030 elements")
FORWARD(f_strides_overflow, SATTN_FULL, false, (c->forward.key.stride_batch = INT64_MAX, c->forward.key.stride_token = INT64_MAX), "key",
        "2^64")
FORWARD(f_out_overlaps_itself, SATTN_FULL, false, (c->forward.out.stride_batch = 30, c->forward.out.stride_token = 10),
        "out overlaps itself", NULL)
FORWARD(f_out_is_query, SATTN_FULL, false, c->forward.out = c->forward.query, "out overlaps query", NULL)
FORWARD(f_out_in_value, SATTN_FULL, false, (c->forward.out.buffer = c->forward.value.buffer, c->forward.out.offset = 39),
        "out overlaps value", NULL)
FORWARD(f_lse_in_out, SATTN_FULL, false, (c->forward.lse.buffer = c->forward.out.buffer, c->forward.lse.offset = 59), "lse overlaps out",
        NULL)
FORWARD(f_branches_overlap, SATTN_GATED, false, c->saved.y_swa = c->saved.y_sa, "saved.y_swa overlaps saved.y_sa", NULL)
FORWARD(f_out_in_workspace, SATTN_STOCHASTIC, false,
        (c->forward.workspace = c->forward.out.buffer, c->forward.workspace_offset = 0,
         c->plan->info.forward_workspace = c->plan->info.forward_workspace < 64     ? 64
                                           : c->plan->info.forward_workspace > 4096 ? 4096
                                                                                    : c->plan->info.forward_workspace),
        "workspace overlaps out", NULL)
FORWARD(f_workspace_unaligned, SATTN_FULL, false, c->forward.workspace_offset = 64, "workspace_offset is 64", "256")
FORWARD(f_workspace_negative, SATTN_FULL, false, c->forward.workspace_offset = -256, "workspace_offset is -256", "256")
FORWARD(f_workspace_missing, SATTN_FULL, false, (c->forward.workspace = NULL, c->plan->info.forward_workspace = 64), "workspace is missing",
        NULL)
FORWARD(f_workspace_small, SATTN_FULL, false, c->plan->info.forward_workspace = c->workspace->bytes + 1, "workspace", "bytes")
FORWARD(f_permutation_missing, SATTN_STOCHASTIC, false, c->forward.permutation = NULL, "permutation is missing", "sa")
FORWARD(f_permutation_shorter_call, SATTN_STOCHASTIC, false, c->forward.sizes.keys = 3, "permutation has length 4", "3")
FORWARD(f_permutation_longer, SATTN_UNION, false, c->permutation->length = 5, "permutation has length 5", "4")
FORWARD(f_permutation_foreign, SATTN_GATED, false, c->permutation->context = c->other_context, "permutation", "another context")
FORWARD(f_pass_missing, SATTN_FULL, false, c->plan->passes = SATTN_PASS_BACKWARD, "plan", "SATTN_PASS_FORWARD")

BACKWARD(b_struct_size, SATTN_FULL, false, c->backward.struct_size = 0, SATTN_INVALID_ARGUMENT, "args.struct_size", "is 0")
BACKWARD(b_saved_null, SATTN_FULL, false, c->backward.saved = NULL, SATTN_INVALID_ARGUMENT, "saved is NULL", NULL)
BACKWARD(b_saved_fresh, SATTN_FULL, false, sattn_saved_init(&c->saved), SATTN_MISMATCH, "saved", "sattn_forward")
BACKWARD(b_other_plan, SATTN_FULL, false, c->saved.plan_id = c->other_plan->id, SATTN_MISMATCH, "saved.plan_id", NULL)
BACKWARD(b_other_permutation, SATTN_STOCHASTIC, false, c->permutation->id += 1000, SATTN_MISMATCH, "saved.permutation_id", NULL)
BACKWARD(b_other_hash, SATTN_UNION, false, c->saved.permutation_hash ^= 1, SATTN_MISMATCH, "saved.permutation_hash", NULL)
BACKWARD(b_no_permutation, SATTN_GATED, false, c->saved.permutation = NULL, SATTN_MISMATCH, "saved.permutation_id", NULL)
BACKWARD(b_sizes, SATTN_FULL, false, c->saved.sizes.keys = 9, SATTN_MISMATCH, "saved.sizes", "keys 9")
BACKWARD(b_sizes_negative, SATTN_FULL, false, c->saved.sizes.batch = -9, SATTN_MISMATCH, "saved.sizes", "batch -9")
BACKWARD(b_sizes_other, SATTN_STOCHASTIC, false, c->saved.sizes.keys = 3, SATTN_MISMATCH, "permutation", "3")
BACKWARD(b_out_lost, SATTN_FULL, false, c->saved.out.buffer = NULL, SATTN_INVALID_ARGUMENT, "saved.out is missing", NULL)
BACKWARD(b_lse_lost, SATTN_FULL, false, c->saved.lse.buffer = NULL, SATTN_INVALID_ARGUMENT, "saved.lse is missing", NULL)
BACKWARD(b_selected_lost, SATTN_MOBA, false, c->saved.selected.buffer = NULL, SATTN_INVALID_ARGUMENT, "saved.selected is missing", NULL)
BACKWARD(b_branch_lost, SATTN_GATED, false, c->saved.y_swa.buffer = NULL, SATTN_INVALID_ARGUMENT, "saved.y_swa is missing", NULL)
BACKWARD(b_query_missing, SATTN_FULL, false, c->backward.query.buffer = NULL, SATTN_INVALID_ARGUMENT, "query is missing", NULL)
BACKWARD(b_grad_out_missing, SATTN_FULL, false, c->backward.grad_out.buffer = NULL, SATTN_INVALID_ARGUMENT, "grad_out is missing", NULL)
BACKWARD(b_grad_query_missing, SATTN_FULL, false, c->backward.grad_query.buffer = NULL, SATTN_INVALID_ARGUMENT, "grad_query is missing",
         NULL)
BACKWARD(b_grad_key_missing, SATTN_FULL, false, c->backward.grad_key.buffer = NULL, SATTN_INVALID_ARGUMENT, "grad_key is missing", NULL)
BACKWARD(b_grad_value_missing, SATTN_FULL, false, c->backward.grad_value.buffer = NULL, SATTN_INVALID_ARGUMENT, "grad_value is missing",
         NULL)
BACKWARD(b_grad_gate_missing, SATTN_GATED, false, c->backward.grad_gate_sa.buffer = NULL, SATTN_INVALID_ARGUMENT, "grad_gate_sa is missing",
         NULL)
BACKWARD(b_grad_gate_given, SATTN_FULL, false, c->backward.grad_gate_sa.buffer = c->foreign, SATTN_INVALID_ARGUMENT,
         "grad_gate_sa is given", NULL)
BACKWARD(b_grad_sink_missing, SATTN_FULL, true, c->backward.grad_sink_logits.buffer = NULL, SATTN_INVALID_ARGUMENT,
         "grad_sink_logits is missing", NULL)
BACKWARD(b_grad_sink_given, SATTN_FULL, false, c->backward.grad_sink_logits.buffer = c->foreign, SATTN_INVALID_ARGUMENT,
         "grad_sink_logits is given", NULL)
BACKWARD(b_lengths_missing, SATTN_FULL, true, c->backward.lengths.buffer = NULL, SATTN_INVALID_ARGUMENT, "lengths is missing", NULL)
BACKWARD(b_grad_lse_in_gated, SATTN_GATED, false, c->backward.grad_lse = c->forward.lse_sa, SATTN_INVALID_ARGUMENT, "grad_lse is given",
         NULL)
BACKWARD(b_grad_lse_sa_in_full, SATTN_FULL, false, c->backward.grad_lse_sa = c->forward.lse, SATTN_INVALID_ARGUMENT, "grad_lse_sa is given",
         NULL)
BACKWARD(b_grad_key_is_grad_value, SATTN_FULL, false, c->backward.grad_value = c->backward.grad_key, SATTN_INVALID_ARGUMENT,
         "grad_value overlaps grad_key", NULL)
BACKWARD(b_grad_query_is_out, SATTN_FULL, false, c->backward.grad_query = c->forward.out, SATTN_INVALID_ARGUMENT,
         "grad_query overlaps saved.out", NULL)
BACKWARD(b_grad_key_is_key, SATTN_FULL, false, c->backward.grad_key = c->backward.key, SATTN_INVALID_ARGUMENT, "grad_key overlaps key",
         NULL)
BACKWARD(b_grad_query_folds, SATTN_FULL, false, (c->backward.grad_query.stride_batch = 30, c->backward.grad_query.stride_head = 5),
         SATTN_INVALID_ARGUMENT, "grad_query overlaps itself", NULL)
BACKWARD(b_grad_value_too_far, SATTN_FULL, false, c->backward.grad_value.offset = 1000, SATTN_INVALID_ARGUMENT, "grad_value", "4096 bytes")
BACKWARD(b_workspace_unaligned, SATTN_FULL, false, c->backward.workspace_offset = 100, SATTN_INVALID_ARGUMENT, "workspace_offset is 100",
         NULL)
BACKWARD(b_pass_missing, SATTN_FULL, false, c->plan->passes = SATTN_PASS_FORWARD, SATTN_INVALID_ARGUMENT, "plan", "SATTN_PASS_BACKWARD")
