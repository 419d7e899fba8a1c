/* Blocks for gradients: K and V in list order before attend_cpu_grad.cl, dK and dV back in the caller's order after it.
 *
 *     key, value               [batch][kv head][block][d][64]    transposed, for scores and their gradients
 *     key_row                  [batch][kv head][block][64][d]    for dQ
 *     grad_key, grad_value     the same: sums
 *     state                    [batch][kv head][block]           no key element is a NaN or an infinity; there are sums
 *
 * Whoever adds to a block first clears its sums, so that they are in the caches when they are needed; blocks without sums are zeros.
 *
 * As in pack.cl an item takes all heads of a token where they lie side by side. Needs pack_rows.cl.
 */

static global const int *list_of(const sattn_pack_grad_params *p, global const int *lists, long batch, int head) {
  return lists + (batch * p->lists_per_batch + (p->list_heads > 1 ? head : 0)) * p->list.stride;
}

/* Sixteen keys as rows; returns 0, or a NaN where an element is not finite. */
static float16 pack_key_rows(global const stored *key, const long *row, const int *keep, global float *packed) {
  float16 zero = 0.0f;
  for (int j = 0; j < 16; ++j) {
    _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) {
      const float16 part = as_float16(as_int16(stored_load(key + row[j] + x)) & keep[j]);
      zero = fma(part, (float16)(0.0f), zero);
      stream(part, packed + j * HEAD_DIM + x);
    }
  }
  return zero;
}

static void clear_sums(global float *sums) {
  for (int x = 0; x < 64 * HEAD_DIM; x += 16) stream((float16)(0.0f), sums + x);
}

static int is_zero(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return b.x + b.y + b.z + b.w == 0.0f;
}

static void pack_block(const sattn_pack_grad_params *p, const sattn_grad_blocks *to, long batch, int block, int head,
                       global const stored *key, global const stored *value, global const int *position, global float *packed) {
  const long pack = batch * p->kv_heads + head, target = pack * to->head + block * (long)(64 * HEAD_DIM);
  key += p->key.offset + batch * p->key.stride_batch + head * p->key.stride_head;
  value += p->value.offset + batch * p->value.stride_batch + head * p->value.stride_head;
  float16 zero = 0.0f;
  for (int part = 0; part < 64; part += 16) {
    const long rows = target + part * HEAD_DIM;
    long row[16];
    int keep[16];
    find_rows(position + part, p->key.stride_token, row, keep);
    pack_key(key, row, keep, packed + to->key + target + part);
    zero += pack_key_rows(key, row, keep, packed + to->key_row + rows);
    find_rows(position + part, p->value.stride_token, row, keep);
    pack_key(value, row, keep, packed + to->value + target + part);
  }
  int state = is_zero(zero) ? SATTN_BLOCK_FINITE : 0;
  if (p->flags & SATTN_PACK_GRAD_CLEAR) {
    clear_sums(packed + to->grad_key + target);
    clear_sums(packed + to->grad_value + target);
    state |= SATTN_BLOCK_SUMS;
  }
  ((global int *)packed)[to->state + pack * to->state_head + block] = state;
}

/* Grid: block, heads / heads_at_once, batch. */
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void pack_grad(const sattn_pack_grad_params p, global const stored *key,
                                                                     global const stored *value, global const int *lists,
                                                                     global float *packed) {
  const int sinks = p.flags & SATTN_PACK_GRAD_SINKS;
  for (long batch = get_global_id(2); batch < p.batch; batch += get_global_size(2)) {
    for (int first = get_global_id(1) * p.heads_at_once; first < p.kv_heads; first += get_global_size(1) * p.heads_at_once) {
      global const int *list = list_of(&p, lists, batch, first);
      global const int *position = list + (sinks ? p.list.sink_position : p.list.key_position);
      for (int block = get_global_id(0); block < p.count; block += get_global_size(0)) {
        for (int head = first; head < min(first + p.heads_at_once, p.kv_heads); ++head) {
          pack_block(&p, sinks ? &p.sinks : &p.blocks, batch, block, head, key, value, position + block * 64, packed);
        }
      }
    }
  }
}

/* ---- and back ---- */

/* Where a key stands in the blocks; sink < 0: it is none. */
typedef struct key_place {
  long batch;
  int head, position;
  long entry, sink;
  int has_sums, has_sink_sums;
} key_place;

static int has_sums(const sattn_grad_blocks *blocks, long pack, long entry, global const float *packed) {
  return entry >= 0 && ((global const int *)packed)[blocks->state + pack * blocks->state_head + entry / 64] & SATTN_BLOCK_SUMS;
}

static float16 grad_at(const sattn_pack_grad_params *p, const key_place *at, long sums, long sink_sums, int x, global const float *packed) {
  const long pack = at->batch * p->kv_heads + at->head;
  float16 sum = 0.0f;
  if (at->has_sums) sum = vload16(0, packed + sums + pack * p->blocks.head + at->entry * HEAD_DIM + x);
  if (at->has_sink_sums) sum += vload16(0, packed + sink_sums + pack * p->sinks.head + at->sink * HEAD_DIM + x);
  return sum;
}

static void unpack_row(const sattn_pack_grad_params *p, const key_place *at, global float *packed, global stored *grad_key,
                       global stored *grad_value) {
  grad_key += p->key.offset + at->batch * p->key.stride_batch + at->position * p->key.stride_token + at->head * p->key.stride_head;
  grad_value +=
      p->value.offset + at->batch * p->value.stride_batch + at->position * p->value.stride_token + at->head * p->value.stride_head;
  const long carried = (at->batch * p->kv_heads + at->head) * p->carry_head + at->position * (long)HEAD_DIM;
  _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) {
    const float16 key = grad_at(p, at, p->blocks.grad_key, p->sinks.grad_key, x, packed);
    const float16 value = grad_at(p, at, p->blocks.grad_value, p->sinks.grad_value, x, packed);
    if (p->flags & SATTN_PACK_GRAD_CARRY) {
      stream(key, packed + p->carry_key + carried + x);
      stream(value, packed + p->carry_value + carried + x);
    } else {
      stored_store(key * p->key_factor, grad_key + x);
      stored_store(value, grad_value + x);
    }
  }
}

/* An entry of a list is the key that stands there; behind the last, entry number = position of a key that does not exist and gets zeros. */
static void unpack_entry(const sattn_pack_grad_params *p, global const int *list, key_place *at, int entry, int first, global float *packed,
                         global stored *grad_key, global stored *grad_value) {
  const int position = p->flags & SATTN_PACK_GRAD_ZERO ? NEVER : list[p->list.key_position + entry], exists = position != NEVER;
  at->position = exists ? position : entry;
  at->entry = entry;
  at->sink = -1;
  if (p->flags & SATTN_PACK_GRAD_SINKS && exists && position < list[p->list.counts + 1]) at->sink = position;
  if (at->position >= p->keys || (!exists && p->flags & SATTN_PACK_GRAD_CARRY)) return;
  for (at->head = first; at->head < min(first + p->heads_at_once, p->kv_heads); ++at->head) {
    const long pack = at->batch * p->kv_heads + at->head;
    at->has_sums = exists && has_sums(&p->blocks, pack, entry, packed);
    at->has_sink_sums = has_sums(&p->sinks, pack, at->sink, packed);
    unpack_row(p, at, packed, grad_key, grad_value);
  }
}

/* Grid: block, heads / heads_at_once, batch. */
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void unpack_grad(const sattn_pack_grad_params p, global const int *lists,
                                                                       global float *packed, global stored *grad_key,
                                                                       global stored *grad_value) {
  key_place at;
  for (at.batch = get_global_id(2); at.batch < p.batch; at.batch += get_global_size(2)) {
    for (int first = get_global_id(1) * p.heads_at_once; first < p.kv_heads; first += get_global_size(1) * p.heads_at_once) {
      global const int *list = list_of(&p, lists, at.batch, first);
      for (int entry = get_global_id(0) * 64; entry < p.count * 64; entry += get_global_size(0) * 64) {
        for (int i = 0; i < 64; ++i) unpack_entry(&p, list, &at, entry + i, first, packed, grad_key, grad_value);
      }
    }
  }
}

/* ---- sink logits ---- */

/* d sink logit of a head: - sum over queries of exp(logit - LSE) * delta, compensated. Empty rows have an LSE of -infinity. Grid: head. */
kernel void sum_sinks(const sattn_sum_sinks_params p, global const float *lse_0, global const float *lse_1, global const float *sink_logits,
                      global const float *packed, global float *grad_sink_logits) {
  for (int head = get_global_id(0); head < p.heads; head += get_global_size(0)) {
    const float logit = sink_logits[p.sink_logits + head];
    float sum = 0.0f, error = 0.0f;
    for (long b = 0; b < p.batch; ++b) {
      for (long i = 0; i < (long)p.queries * p.branches; ++i) {
        const int branch = i >= p.queries;
        const long row = (b * p.heads + head) * p.queries + i - (branch ? p.queries : 0);
        const float lse = branch ? lse_1[p.lse[1] + row] : lse_0[p.lse[0] + row];
        if (lse == -INFINITY) continue;
        const float term = -exp(logit - lse) * packed[p.deltas[branch] + row] - error, next = sum + term;
        error = (next - sum) - term;
        sum = next;
      }
    }
    grad_sink_logits[p.grad_sink_logits + head] = sum;
  }
}
