#include <inttypes.h>
#include <string.h>

#include "calls.h"
#include "region.h"

void sattn_rows_args_init(sattn_rows_args *args) {
  if (args == NULL) return;
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
  args->dtype = SATTN_FP32;
}

void sattn_merge_args_init(sattn_merge_args *args) {
  if (args == NULL) return;
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
  args->dtype = SATTN_FP32;
}

sattn_status sattn_rows_prepare(sattn_context *context, sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, context->ops->rows_prepare(context, error), error);
}

/* The four sizes that rows and merge have in common. head_dim is bounded by memory only: rows of any width can be moved and merged. */
static sattn_status check_shape(sattn_dtype dtype, int64_t batch, const char *tokens_name, int64_t tokens, int64_t heads, int64_t head_dim,
                                sattn_error *error) {
  const struct {
    const char *name;
    int64_t value, least;
  } sizes[] = {{"batch", batch, 0}, {tokens_name, tokens, 0}, {"heads", heads, 1}, {"head_dim", head_dim, 1}};
  if (sattn_dtype_name(dtype) == NULL) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "dtype", "dtype is %d: it must be SATTN_FP32, SATTN_FP16 or SATTN_BF16", (int)dtype);
  }
  uint64_t product = sizeof(float);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    if (sizes[i].value < sizes[i].least || sizes[i].value > INT32_MAX) {
      return sattn_fail(error, SATTN_INVALID_ARGUMENT, sizes[i].name, "%s is %" PRId64 ": it must be %" PRId64 " to 2147483647",
                        sizes[i].name, sizes[i].value, sizes[i].least);
    }
    if (!sattn_checked_multiply(product, (uint64_t)sizes[i].value, &product) || product > (uint64_t)INT64_MAX) {
      return sattn_fail(error, SATTN_INVALID_ARGUMENT, sizes[i].name, "%s is %" PRId64 ": the array would exceed 2^63 bytes", sizes[i].name,
                        sizes[i].value);
    }
  }
  return SATTN_OK;
}

static sattn_status refuse(sattn_error *error, const char *field, int64_t value, const char *rule, int64_t expected) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "permutation", "permutation has %s %" PRId64 ": %s %" PRId64, field, value, rule,
                    expected);
}

static sattn_status check_permutation(const sattn_context *context, const sattn_rows_args *args, sattn_error *error) {
  const sattn_permutation *permutation = args->permutation;
  if (permutation == NULL)
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "permutation", "permutation is missing: rows are moved by its order");
  if (permutation->context != context) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "permutation",
                      "permutation is of another context: it must be made from the context of the call");
  }
  if (permutation->length != args->tokens)
    return refuse(error, "length", permutation->length, "it must order exactly the tokens,", args->tokens);
  bool per_head = permutation->sharing == SATTN_PER_HEAD || permutation->sharing == SATTN_PER_BATCH_AND_HEAD;
  bool per_batch = permutation->sharing == SATTN_PER_BATCH || permutation->sharing == SATTN_PER_BATCH_AND_HEAD;
  if (per_head && permutation->kv_heads != args->heads) {
    return refuse(error, "kv_heads", permutation->kv_heads, "it must have one order per head,", args->heads);
  }
  if (per_batch && permutation->batch != args->batch) {
    return refuse(error, "batch", permutation->batch, "it must have one order per batch entry,", args->batch);
  }
  return SATTN_OK;
}

static sattn_status move_rows(sattn_context *context, const sattn_rows_args *caller, int inverse, const sattn_submission *submission,
                              sattn_error *error) {
  sattn_rows_args args;
  sattn_rows_args_init(&args);
  sattn_status status = sattn_copy_struct("args", caller, sizeof args, &args, error);
  if (status == SATTN_OK) status = check_shape(args.dtype, args.batch, "tokens", args.tokens, args.heads, args.head_dim, error);
  if (status == SATTN_OK) status = check_permutation(context, &args, error);
  if (status == SATTN_OK) status = sattn_submission_check(submission->wait_list, submission->wait_count, error);
  if (status != SATTN_OK) return status;
  size_t element = sattn_dtype_size(args.dtype);
  const sattn_extent source = {"source", SATTN_REQUIRED, false, element, args.batch, args.tokens, args.heads, args.head_dim};
  const sattn_extent target = {"target", SATTN_REQUIRED, true, element, args.batch, args.tokens, args.heads, args.head_dim};
  sattn_region_set set;
  sattn_region_begin(&set, context, "the call", error);
  sattn_region_add_tensor(&set, &source, &args.source);
  sattn_region_add_tensor(&set, &target, &args.target);
  status = sattn_region_end(&set);
  if (status != SATTN_OK) return status;
  if (args.batch > 0 && args.tokens > 0) return context->ops->move_rows(context, &args, inverse, submission, error);
  if (submission->out_event != NULL) submission->out_event->native = NULL;
  return SATTN_OK;
}

static sattn_status submit_rows(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                                sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, move_rows(context, args, inverse, submission, error), error);
}

sattn_status sattn_gather_rows(sattn_context *context, const sattn_rows_args *args, sattn_queue queue, const sattn_event *wait_list,
                               size_t wait_count, sattn_event *out_event, sattn_error *out_error) {
  const sattn_submission submission = {queue, wait_list, wait_count, out_event};
  return submit_rows(context, args, 0, &submission, out_error);
}

sattn_status sattn_scatter_rows(sattn_context *context, const sattn_rows_args *args, sattn_queue queue, const sattn_event *wait_list,
                                size_t wait_count, sattn_event *out_event, sattn_error *out_error) {
  const sattn_submission submission = {queue, wait_list, wait_count, out_event};
  return submit_rows(context, args, 1, &submission, out_error);
}

static sattn_status merge(sattn_context *context, const sattn_merge_args *caller, const sattn_submission *submission, sattn_error *error) {
  sattn_merge_args args;
  sattn_merge_args_init(&args);
  sattn_status status = sattn_copy_struct("args", caller, sizeof args, &args, error);
  if (status == SATTN_OK) status = check_shape(args.dtype, args.batch, "queries", args.queries, args.heads, args.head_dim, error);
  if (status == SATTN_OK) status = sattn_submission_check(submission->wait_list, submission->wait_count, error);
  if (status != SATTN_OK) return status;
  size_t element = sattn_dtype_size(args.dtype);
  uint64_t rows = (uint64_t)args.batch * (uint64_t)args.queries * (uint64_t)args.heads;
  sattn_extent extent = {"out_a", SATTN_REQUIRED, false, element, args.batch, args.queries, args.heads, args.head_dim};
  sattn_region_set set;
  sattn_region_begin(&set, context, "the call", error);
  set.may_coincide = true;
  sattn_region_add_tensor(&set, &extent, &args.out_a);
  sattn_region_add_array(&set, "lse_a", SATTN_REQUIRED, false, sizeof(float), rows, &args.lse_a);
  extent.name = "out_b";
  sattn_region_add_tensor(&set, &extent, &args.out_b);
  sattn_region_add_array(&set, "lse_b", SATTN_REQUIRED, false, sizeof(float), rows, &args.lse_b);
  extent.name = "out";
  extent.output = true;
  sattn_region_add_tensor(&set, &extent, &args.out);
  sattn_region_add_array(&set, "lse", SATTN_OPTIONAL, true, sizeof(float), rows, &args.lse);
  status = sattn_region_end(&set);
  if (status != SATTN_OK) return status;
  if (rows > 0) return context->ops->merge(context, &args, submission, error);
  if (submission->out_event != NULL) submission->out_event->native = NULL;
  return SATTN_OK;
}

sattn_status sattn_merge(sattn_context *context, const sattn_merge_args *args, sattn_queue queue, const sattn_event *wait_list,
                         size_t wait_count, sattn_event *out_event, sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  const sattn_submission submission = {queue, wait_list, wait_count, out_event};
  return sattn_context_report(context, merge(context, args, &submission, error), error);
}
