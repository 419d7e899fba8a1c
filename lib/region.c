#include "region.h"

#include <inttypes.h>
#include <string.h>

enum { WORKSPACE_ALIGNMENT = 256 };

void sattn_region_begin(sattn_region_set *set, const sattn_context *context, const char *owner, sattn_error *error) {
  set->context = context;
  set->owner = owner;
  set->may_coincide = false;
  set->error = error;
  set->status = SATTN_OK;
  set->count = 0;
}

static void refuse(sattn_region_set *set, const char *name, const char *rule) {
  set->status = sattn_fail(set->error, SATTN_INVALID_ARGUMENT, name, "%s %s", name, rule);
}

/* Whether the array takes part; false also after a refusal. */
static bool check_presence(sattn_region_set *set, const char *name, sattn_presence presence, bool given, bool empty) {
  if (set->status != SATTN_OK) return false;
  if (given && presence == SATTN_ABSENT) {
    set->status = sattn_fail(set->error, SATTN_INVALID_ARGUMENT, name, "%s is given: %s has no such array", name, set->owner);
    return false;
  }
  if (!given && presence == SATTN_REQUIRED && !empty) {
    set->status = sattn_fail(set->error, SATTN_INVALID_ARGUMENT, name, "%s is missing: %s needs this array", name, set->owner);
    return false;
  }
  return given;
}

/* The number of elements from the first to behind the last, or false where it does not fit. Every extent >= 1, every stride >= 0. */
static bool reach(const sattn_extent *extent, const int64_t stride[3], uint64_t *out_elements) {
  const int64_t counts[3] = {extent->batch, extent->tokens, extent->heads};
  uint64_t sum = (uint64_t)extent->width;
  for (int i = 0; i < 3; ++i) {
    uint64_t part = 0;
    if (!sattn_checked_multiply((uint64_t)(counts[i] - 1), (uint64_t)stride[i], &part) || !sattn_checked_add(sum, part, &sum)) return false;
  }
  *out_elements = sum;
  return true;
}

/* Sorts the strides and leaves out what repeats nothing. An input may have stride 0: the same bytes again. */
static void shape_region(sattn_region *region, const sattn_extent *extent, const int64_t stride[3]) {
  const int64_t counts[3] = {extent->batch, extent->tokens, extent->heads};
  int64_t size = (int64_t)extent->element;
  region->run = extent->width * size;
  region->levels = 0;
  for (int i = 0; i < 3; ++i) {
    if (counts[i] == 1 || (stride[i] == 0 && !region->output)) continue;
    int32_t place = region->levels++;
    for (; place > 0 && region->stride[place - 1] < stride[i] * size; --place) {
      region->stride[place] = region->stride[place - 1];
      region->extent[place] = region->extent[place - 1];
    }
    region->stride[place] = stride[i] * size;
    region->extent[place] = counts[i];
  }
}

static sattn_region *append(sattn_region_set *set, const char *name, const void *space, bool output, int64_t first) {
  if (set->count == SATTN_REGION_CAPACITY) {
    set->status = sattn_fail(set->error, SATTN_INTERNAL, name, "%s: a call has more arrays than the check of regions has room for", name);
    return NULL;
  }
  sattn_region *region = &set->region[set->count++];
  region->name = name;
  region->space = space;
  region->output = output;
  region->first = first;
  region->run = 0;
  region->levels = 0;
  return region;
}

static bool check_owner(sattn_region_set *set, const char *name, const sattn_buffer *buffer, int64_t offset) {
  if (buffer->context != set->context) {
    refuse(set, name, "lies in a buffer of another context");
  } else if (offset < 0) {
    set->status = sattn_fail(set->error, SATTN_INVALID_ARGUMENT, name, "%s.offset is %" PRId64 ": it must be 0 or more", name, offset);
  }
  return set->status == SATTN_OK;
}

/* Whether [offset, offset + elements) of `element` bytes lies in the buffer. */
static bool check_end(sattn_region_set *set, const char *name, const sattn_buffer *buffer, int64_t offset, uint64_t elements,
                      size_t element) {
  uint64_t end = 0;
  if (sattn_checked_add((uint64_t)offset, elements, &end) && sattn_checked_multiply(end, element, &end) && end <= buffer->bytes)
    return true;
  set->status =
      sattn_fail(set->error, SATTN_INVALID_ARGUMENT, name,
                 "%s reaches over %" PRIu64 " elements of %zu bytes from offset %" PRId64 ": its buffer has only %" PRIu64 " bytes", name,
                 elements, element, offset, buffer->bytes);
  return false;
}

static bool check_strides(sattn_region_set *set, const sattn_extent *extent, const int64_t stride[3], uint64_t *out_elements) {
  static const char *const fields[3] = {"stride_batch", "stride_token", "stride_head"};
  for (int i = 0; i < 3; ++i) {
    if (stride[i] >= 0) continue;
    set->status = sattn_fail(set->error, SATTN_INVALID_ARGUMENT, extent->name, "%s.%s is %" PRId64 ": a stride must be 0 or more",
                             extent->name, fields[i], stride[i]);
    return false;
  }
  if (reach(extent, stride, out_elements)) return true;
  refuse(set, extent->name, "has strides that reach beyond 2^64 elements");
  return false;
}

static bool is_empty(const sattn_extent *extent) {
  return extent->batch == 0 || extent->tokens == 0 || extent->heads == 0 || extent->width == 0;
}

void sattn_region_add_tensor(sattn_region_set *set, const sattn_extent *extent, sattn_tensor *tensor) {
  bool empty = is_empty(extent);
  if (!check_presence(set, extent->name, extent->presence, tensor->buffer != NULL, empty)) return;
  if (!check_owner(set, extent->name, tensor->buffer, tensor->offset)) return;
  sattn_tensor_resolve(tensor, extent->tokens, extent->heads, extent->width);
  if (empty) return;
  const int64_t stride[3] = {tensor->stride_batch, tensor->stride_token, tensor->stride_head};
  uint64_t elements = 0;
  if (!check_strides(set, extent, stride, &elements)) return;
  if (!check_end(set, extent->name, tensor->buffer, tensor->offset, elements, extent->element)) return;
  sattn_region *region = append(set, extent->name, tensor->buffer, extent->output, tensor->offset * (int64_t)extent->element);
  if (region != NULL) shape_region(region, extent, stride);
}

void sattn_region_add_array(sattn_region_set *set, const char *name, sattn_presence presence, bool output, size_t element, uint64_t count,
                            const sattn_array *array) {
  if (!check_presence(set, name, presence, array->buffer != NULL, count == 0)) return;
  if (!check_owner(set, name, array->buffer, array->offset)) return;
  if (count == 0 || !check_end(set, name, array->buffer, array->offset, count, element)) return;
  sattn_region *region = append(set, name, array->buffer, output, array->offset * (int64_t)element);
  if (region != NULL) region->run = (int64_t)(count * element);
}

void sattn_region_add_workspace(sattn_region_set *set, uint64_t bytes, const sattn_buffer *workspace, int64_t offset) {
  const char *name = "workspace";
  if (set->status != SATTN_OK) return;
  if (offset < 0 || offset % WORKSPACE_ALIGNMENT != 0) {
    set->status = sattn_fail(set->error, SATTN_INVALID_ARGUMENT, "workspace_offset",
                             "workspace_offset is %" PRId64 ": it must be 0 or a positive multiple of 256 bytes", offset);
    return;
  }
  if (!check_presence(set, name, SATTN_REQUIRED, workspace != NULL, bytes == 0)) return;
  if (!check_owner(set, name, workspace, offset)) return;
  if (bytes == 0 || !check_end(set, name, workspace, offset, bytes, 1)) return;
  sattn_region *region = append(set, name, workspace, true, offset);
  if (region != NULL) region->run = (int64_t)bytes;
}

void sattn_region_add_host(sattn_region_set *set, const sattn_extent *extent, const void *data, int64_t stride_batch, int64_t stride_token,
                           int64_t stride_head, uint64_t *out_bytes) {
  bool empty = is_empty(extent);
  *out_bytes = 0;
  if (!check_presence(set, extent->name, extent->presence, data != NULL, empty) || empty) return;
  sattn_tensor packed = {NULL, 0, stride_batch, stride_token, stride_head};
  sattn_tensor_resolve(&packed, extent->tokens, extent->heads, extent->width);
  const int64_t stride[3] = {packed.stride_batch, packed.stride_token, packed.stride_head};
  uint64_t bytes = 0;
  if (!check_strides(set, extent, stride, &bytes)) return;
  if (!sattn_checked_multiply(bytes, extent->element, &bytes) || bytes > (uint64_t)INT64_MAX ||
      (uintptr_t)data > (uint64_t)INT64_MAX - bytes) {
    refuse(set, extent->name, "reaches beyond the address space");
    return;
  }
  *out_bytes = bytes;
  sattn_region *region = append(set, extent->name, NULL, extent->output, (int64_t)(uintptr_t)data);
  if (region != NULL) shape_region(region, extent, stride);
}

static bool coincide(const sattn_region *a, const sattn_region *b) {
  if (a->first != b->first || a->run != b->run || a->levels != b->levels) return false;
  for (int32_t i = 0; i < a->levels; ++i) {
    if (a->stride[i] != b->stride[i] || a->extent[i] != b->extent[i]) return false;
  }
  return true;
}

/* Whether the input is one that the output may replace: out_a is one of out's, lse_b of lse's. */
static bool is_counterpart(const sattn_region *output, const sattn_region *input) {
  size_t length = strlen(output->name);
  return strncmp(input->name, output->name, length) == 0 && input->name[length] == '_';
}

static void check_pair(sattn_region_set *set, const sattn_region *a, const sattn_region *b) {
  if (a->space != b->space || (!a->output && !b->output)) return;
  const sattn_region *output = a->output ? a : b;
  const sattn_region *other = a->output ? b : a;
  if (set->may_coincide && !other->output && is_counterpart(output, other) && coincide(output, other)) return;
  if (!sattn_regions_meet(a, b)) return;
  set->status = sattn_fail(set->error, SATTN_INVALID_ARGUMENT, output->name,
                           "%s overlaps %s: an output must not share memory with another array", output->name, other->name);
}

sattn_status sattn_region_end(sattn_region_set *set) {
  for (size_t i = 0; i < set->count && set->status == SATTN_OK; ++i) {
    if (set->region[i].output && sattn_region_meets_itself(&set->region[i])) {
      refuse(set, set->region[i].name, "overlaps itself: the strides of an output must give every element a place of its own");
    }
    for (size_t j = 0; j < i && set->status == SATTN_OK; ++j) check_pair(set, &set->region[i], &set->region[j]);
  }
  return set->status;
}
