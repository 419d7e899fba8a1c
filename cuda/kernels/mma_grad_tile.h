// Shared memory of the backward kernels on tensor cores, what they know of rows and columns, and moving them there.
//
//     rows a, b      [2][rows][d]            dQ: Q, dO        dK, dV: K, V
//     columns a, b   [2][2][columns][d]      dQ: K, V         dK, dV: Q, dO; two stages of each
//     row stats      [rows] of 16 bytes      dQ only: LSE, delta, gate of a query
//     column stats   [2][columns]            dK, dV only: the same
//     index          [4][columns]            token, slot of the columns of four tiles; of a query the token is its position
//     table          [rows]                  where a row lies, edge, slot, position
//     bounds         [rows / 16]             lowest and highest edge and slot of a group
//     notes                                  place, columns, addresses
//
// The edge of a key is its token, that of a query the last token that it may see: a key is visible if its edge is at most the query's and
// its slot is in the query's band. Rows of 16 bit elements are swizzled as mma_tile.h says.
#ifndef SATTN_CUDA_KERNELS_MMA_GRAD_TILE_H
#define SATTN_CUDA_KERNELS_MMA_GRAD_TILE_H

#include "grad_params.h"
#include "mma_tile.h"

namespace {

// by_key: rows are keys and columns queries, else the other way round.
template <int d, bool by_key>
struct Grad_shape {
  static constexpr int groups = d <= (by_key ? 64 : 96) ? 2 : 1;  // per warp
  static constexpr int group_rows = 16;
  static constexpr int rows = group_rows * groups * kWarps;
  static constexpr int columns = SATTN_GRAD_COLUMNS;
  static constexpr int steps = columns / 16;
  static constexpr uint32_t tile_bytes = columns * d * 2;
  static constexpr uint32_t rows_b_at = rows * d * 2;
  static constexpr uint32_t columns_a_at = 2 * rows_b_at;
  static constexpr uint32_t columns_b_at = columns_a_at + 2 * tile_bytes;
  static constexpr uint32_t row_stats_at = columns_b_at + 2 * tile_bytes;
  static constexpr uint32_t column_stats_at = row_stats_at + rows * 16;
  static constexpr uint32_t index_at = column_stats_at + 2 * columns * 16;
  static constexpr uint32_t table_at = index_at + kIndexTiles * columns * 8;
  static constexpr uint32_t notes_at = table_at + rows * 17;
  static constexpr uint32_t bytes = notes_at + SATTN_GRAD_NOTES;
  static_assert(rows == (by_key ? SATTN_GRAD_KEY_ROWS(d) : SATTN_GRAD_QUERY_ROWS(d)), "the host cuts rows otherwise");
  static_assert(bytes == SATTN_GRAD_SHARED(d, rows), "the host asks for another amount of shared memory");
};

// Where the columns of the block lie, of the first head if there are several.
struct Grad_source {
  const uint16_t *a, *b;
};

struct Grad_notes {
  Place place;
  Keys columns;  // of one head; `list` holds queries where columns are queries
  Grad_source source;
};
static_assert(sizeof(Grad_notes) <= SATTN_GRAD_NOTES, "no room for the notes");

// Shared memory, by name.
struct Grad_memory {
  gpu_shared<unsigned char> bytes;
  uint32_t rows_a, rows_b, columns_a, columns_b, column_stats_address;
  gpu_shared<float4> row_stats, column_stats;
  gpu_shared<uint2> index;
  gpu_shared<int> at, edge, slot, position;
  gpu_shared<int4> bounds;
  gpu_shared<uint4> place, columns, source;  // notes
};

template <class S>
GPU_DEVICE Grad_memory grad_memory(gpu_shared<unsigned char> bytes) {
  const uint32_t start = gpu_shared_address(bytes);
  Grad_memory memory;
  memory.bytes = bytes;
  memory.rows_a = start;
  memory.rows_b = start + S::rows_b_at;
  memory.columns_a = start + S::columns_a_at;
  memory.columns_b = start + S::columns_b_at;
  memory.column_stats_address = start + S::column_stats_at;
  memory.row_stats = gpu_shared_cast<float4>(bytes, S::row_stats_at);
  memory.column_stats = gpu_shared_cast<float4>(bytes, S::column_stats_at);
  memory.index = gpu_shared_cast<uint2>(bytes, S::index_at);
  memory.at = gpu_shared_cast<int>(bytes, S::table_at);
  memory.edge = memory.at + S::rows;
  memory.slot = memory.edge + S::rows;
  memory.position = memory.slot + S::rows;
  memory.bounds = gpu_shared_cast<int4>(bytes, S::table_at + S::rows * 16);
  memory.place = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Grad_notes, place));
  memory.columns = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Grad_notes, columns));
  memory.source = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Grad_notes, source));
  return memory;
}

// ---- keys as rows, queries as columns

// head: the first of the group. tile: the sink tokens' tiles come first.
GPU_DEVICE Place locate_keys(const sattn_cuda_band_grad &call) {
  const sattn_cuda_band &band = call.band;
  Place place;
  uint32_t index = blockIdx.x;
  place.split = 0;
  place.tile = (int)(index % (uint32_t)call.key_tiles);
  index /= (uint32_t)call.key_tiles;
  const uint32_t kv_heads = (uint32_t)(band.heads / band.group);
  place.g = (int)(index % kv_heads);
  place.b = index / kv_heads;
  place.head = place.g * band.group;
  place.heads = band.group;
  place.length = band.lengths ? gpu_max(0, gpu_min(gpu_load(band.lengths + place.b), band.keys)) : band.keys;
  place.start = band.keys - band.queries;
  if (band.query_start) place.start = gpu_max(0, gpu_min(gpu_load(band.query_start + place.b), place.start));
  place.present = gpu_max(0, gpu_min(place.length - place.start, band.queries));
  place.list_row = place.b * band.list_batch + place.g * band.list_head;
  return place;
}

// limit: the token, kNoToken for a key that does not exist; query: where its row lies, -1 for none.
GPU_DEVICE Row key_row_of(const sattn_cuda_band_grad &call, const Place &place, int r, int rows) {
  const sattn_cuda_band &band = call.band;
  const bool sink = place.tile < call.key_sink_tiles;
  const int64_t entry = (int64_t)(sink ? place.tile : place.tile - call.key_sink_tiles) * rows + r;
  Row row = {-1, kNoToken, 0, 0};
  if (entry >= (sink ? band.sinks : band.keys - band.sinks)) return row;
  row.query = row.slot = (int)entry + (sink ? 0 : band.sinks);
  if (!sink && band.key_list && entry < place.length - band.sinks) {
    const uint64_t listed = gpu_load(band.key_list + place.list_row * band.list_keys + entry);
    row.query = (int)(uint32_t)listed;
    row.slot = (int)(listed >> 32);
  }
  row.position = row.query;
  if (row.query < place.length) row.limit = row.query;
  return row;
}

// The queries that the keys of the tile can be seen by.
GPU_DEVICE Keys queries_of(const sattn_cuda_band_grad &call, const Place &place, int rows, int step) {
  const sattn_cuda_band &band = call.band;
  Keys queries = {nullptr, 0, 0, 0, 0, 0, 0};
  const bool sink = place.tile < call.key_sink_tiles;
  if (sink && !band.visit_sinks) return queries;
  const int64_t low = (int64_t)(sink ? place.tile : place.tile - call.key_sink_tiles) * rows + (sink ? 0 : band.sinks);
  const int64_t high = gpu_min<int64_t>(low + rows, sink ? gpu_min(band.sinks, place.length) : place.length) - 1;
  if (!sink && band.key_list) {
    const int64_t tile = place.list_row * (call.key_tiles - call.key_sink_tiles) + place.tile - call.key_sink_tiles;
    queries.list = band.query_list + place.list_row * band.queries;
    queries.first = (int)gpu_load(call.key_ranges + tile * 2);
    queries.end = (int)gpu_load(call.key_ranges + tile * 2 + 1);
  } else if (low <= high) {
    int64_t first = place.start, last = (int64_t)place.start + place.present - 1;
    if (band.causal) first = gpu_max(first, low);
    if (!sink) first = gpu_max(first, low - band.right);
    if (!sink) last = gpu_min(last, high + band.left - (gpu_fault("grad_key_positions_narrow") ? 1 : 0));
    queries.first = (int)first;
    queries.end = (int)gpu_max(first, last + 1);
  }
  queries.tiles = (queries.end - queries.first + step - 1) / step;
  return queries;
}

// ---- the table of rows

template <class S, bool by_key>
GPU_DEVICE void fill_table(const Grad_memory &memory, const sattn_cuda_band_grad &call, const Place &place) {
  const int r = (int)threadIdx.x;
  if (r >= S::rows) return;
  const Row row = by_key ? key_row_of(call, place, r, S::rows) : row_of(call.band, place, r);
  memory.at[r] = row.query;
  memory.edge[r] = row.limit;
  memory.slot[r] = row.slot;
  memory.position[r] = row.position;
}

template <bool by_key>
GPU_DEVICE bool row_exists(int edge) {
  return by_key ? edge != kNoToken : edge >= 0;
}

// Lowest and highest edge and slot of those that exist; alike in the whole warp.
GPU_DEVICE int4 bounds_of(bool exists, int edge, int slot) {
  int4 bounds;
  bounds.x = __reduce_min_sync(kAllLanes, exists ? edge : kNoToken);
  bounds.y = __reduce_max_sync(kAllLanes, exists ? edge : -1);
  bounds.z = __reduce_min_sync(kAllLanes, exists ? slot : kNoToken);
  bounds.w = __reduce_max_sync(kAllLanes, exists ? slot : -1);
  return bounds;
}

template <class S, bool by_key>
GPU_DEVICE void bound_rows(const Grad_memory &memory, int group, int lane) {
  const int r = group * S::group_rows + lane % S::group_rows;
  int4 bounds = bounds_of(row_exists<by_key>(memory.edge[r]), memory.edge[r], memory.slot[r]);
  // The edge of a key that does not exist is beyond every query, so that its group is never taken for one that is seen whole.
  if (by_key && !gpu_fault("grad_missing_keys_seen")) bounds.y = __reduce_max_sync(kAllLanes, memory.edge[r]);
  if (lane == 0) memory.bounds[group] = bounds;
}

// ---- copies

// Calls move(row, chunk, byte offset) for every chunk of `count` rows from `row` on, in an array of `rows` rows. Not unrolled: registers
// are what these kernels have least of.
template <int d, int count, int threads, class Move>
GPU_DEVICE void each_piece(int thread, int rows, int row, Move move) {
  constexpr int wide = d / 64 * 8, narrow = d % 64 / 8;
  GPU_NO_UNROLL
  for (int i = 0; i < count * wide / threads; ++i) {
    const int k = thread + i * threads, r = row + k / wide, c = k % wide;
    move(r, c, (uint32_t)(r * wide * 16 + ((c ^ ((gpu_fault("grad_no_swizzle") ? 0 : r) & 7)) << 4)));
  }
  if constexpr (narrow != 0) {
    GPU_NO_UNROLL
    for (int i = 0; i < (count * narrow + threads - 1) / threads; ++i) {
      const int k = thread + i * threads;
      if (count * narrow % threads != 0 && k >= count * narrow) continue;
      move(row + k / narrow, wide + k % narrow, (uint32_t)(rows * wide * 16) + narrow_offset<d>(row + k / narrow, k % narrow));
    }
  }
}

// Rows that are not there become zeros.
template <class S, int d, bool by_key>
GPU_DEVICE void load_grad_rows(const Grad_memory &memory, const sattn_cuda_band_grad &call, const Place &place) {
  const sattn_cuda_band &band = call.band;
  const uint16_t *a = static_cast<const uint16_t *>(by_key ? band.key_rows : band.query_rows);
  const uint16_t *b = static_cast<const uint16_t *>(by_key ? band.value_rows : call.grad_out_rows);
  const sattn_kernel_tensor &place_a = by_key ? band.key : band.query, &place_b = by_key ? band.value : call.grad_out;
  each_piece<d, S::rows, kThreads>((int)threadIdx.x, S::rows, 0, [&](int r, int c, uint32_t offset) {
    const bool there = row_exists<by_key>(memory.edge[r]);
    const int64_t at = there ? (int)memory.at[r] : 0, head = by_key ? place.g : place.head + (there ? r % band.pack : 0);
    const int64_t at_a = place_a.offset + place.b * place_a.stride_batch + at * place_a.stride_token + head * place_a.stride_head;
    const int64_t at_b = place_b.offset + place.b * place_b.stride_batch + at * place_b.stride_token + head * place_b.stride_head;
    gpu_cp_async<16>(memory.rows_a + offset, a + at_a + c * 8, there ? 16u : 0u);
    gpu_cp_async<16>(memory.rows_b + offset, b + at_b + c * 8, there ? 16u : 0u);
  });
}

GPU_DEVICE int64_t stats_index(const sattn_cuda_band &band, int64_t b, int head, int query) {
  return (b * band.heads + head) * (int64_t)band.queries + query;
}

template <class S>
GPU_DEVICE void load_row_stats(const Grad_memory &memory, const sattn_cuda_band_grad &call, const Place &place) {
  const int r = (int)threadIdx.x;
  if (r >= S::rows) return;
  const bool there = row_exists<false>(memory.edge[r]);
  const int64_t at = there ? stats_index(call.band, place.b, place.head + r % call.band.pack, memory.at[r]) : 0;
  gpu_cp_async<16>(gpu_shared_address(memory.row_stats + r), call.row_stats + at, there ? 16u : 0u);
}

// Where the columns of this block begin.
template <bool by_key>
GPU_DEVICE Grad_source grad_source(const sattn_cuda_band_grad &call, const Place &place) {
  const sattn_cuda_band &band = call.band;
  const sattn_kernel_tensor &place_a = by_key ? band.query : band.key, &place_b = by_key ? call.grad_out : band.value;
  const int64_t head = by_key ? place.head : place.g;
  Grad_source source;
  source.a = static_cast<const uint16_t *>(by_key ? band.query_rows : band.key_rows) + place_a.offset + place.b * place_a.stride_batch +
             head * place_a.stride_head;
  source.b = static_cast<const uint16_t *>(by_key ? call.grad_out_rows : band.value_rows) + place_b.offset +
             place.b * place_b.stride_batch + head * place_b.stride_head;
  return source;
}

// Token and slot of the columns of tile `tile` of a head, into place `ring`. List entries arrive with the next group of copies, everything
// else at the next barrier.
template <class S>
GPU_DEVICE void load_column_index(gpu_shared<uint2> index, const Keys &columns, int ring, int tile) {
  const int k = (int)threadIdx.x;
  if (k >= S::columns) return;
  const gpu_shared<uint2> place = index + (ring % kIndexTiles * S::columns + k);
  const int at = key_index(columns, tile, k, S::columns);
  if (columns.list && !is_sink_tile(columns, tile) && at >= 0) {
    gpu_cp_async<8>(gpu_shared_address(place), columns.list + at, 8u);
  } else {
    place[0] = at >= 0 ? make_uint2((uint32_t)at, (uint32_t)at) : make_uint2((uint32_t)kNoToken, 0u);
  }
}

// The columns whose index is there, of head number `head` of the group. Those that are not there become zeros.
template <class S, int d, bool by_key>
GPU_DEVICE void load_columns(const Grad_memory &memory, gpu_shared<uint32_t> tokens, const sattn_cuda_band_grad &call, int stage,
                             int head) {
  const Grad_source source = read_note<Grad_source>(memory.source);
  const Place place = read_note<Place>(memory.place);
  const sattn_kernel_tensor &place_a = by_key ? call.band.query : call.band.key, &place_b = by_key ? call.grad_out : call.band.value;
  const uint16_t *a = source.a + (by_key ? head * place_a.stride_head : 0), *b = source.b + (by_key ? head * place_b.stride_head : 0);
  const uint32_t start = (uint32_t)stage * S::tile_bytes;
  each_piece<d, S::columns, kThreads>((int)threadIdx.x, S::columns, 0, [&](int r, int c, uint32_t offset) {
    const uint32_t token = tokens[2 * r];
    const bool there = token != (uint32_t)kNoToken;
    const int64_t at = there ? (int64_t)token - (by_key ? place.start : 0) : 0;
    gpu_cp_async<16>(memory.columns_a + start + offset, a + at * place_a.stride_token + c * 8, there ? 16u : 0u);
    gpu_cp_async<16>(memory.columns_b + start + offset, b + at * place_b.stride_token + c * 8, there ? 16u : 0u);
  });
  // Half warps: every other word of 16 columns is in a bank of its own, of 32 it is not.
  const int thread = (int)threadIdx.x, r = thread / 32 * 16 + thread % 32;
  if (!by_key || thread % 32 >= 16 || r >= S::columns) return;
  const uint32_t token = tokens[2 * r];
  const bool there = token != (uint32_t)kNoToken;
  const int64_t at = there ? stats_index(call.band, place.b, place.head + head, (int)token - place.start) : 0;
  gpu_cp_async<16>(memory.column_stats_address + (uint32_t)((gpu_fault("grad_stale_stats") ? 0 : stage) * S::columns + r) * 16,
                   call.row_stats + at, there ? 16u : 0u);
}

}  // namespace

#endif
