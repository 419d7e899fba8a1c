/* What tests may ask of the stub driver. A real driver exports none of these: look
   them up with dlsym and skip what needs them when they are not there. */
#ifndef SATTN_STUB_H
#define SATTN_STUB_H

#ifdef __cplusplus
extern "C" {
#endif

/* Objects alive now, and sums since the start or the last sattn_stub_reset. */
typedef struct sattn_stub_stats {
  long calls;   /* driver calls, the failed ones too */
  int retains;  /* of primary contexts */
  int contexts; /* others */
  int modules, streams, events, allocations, host_allocations, graphs, graph_execs;
  int orphans; /* objects that were left in a context when it went */
  int misuses; /* calls refused because of how they were made; see sattn_stub_report */
  unsigned long long launches, deferred, graph_launches;
  unsigned long long pending_frees; /* cuMemFree while work was queued: it waits, and so hides a missing wait */
  unsigned long long bytes, peak_bytes;
  const char *failed_function; /* the call that was made to fail last, "" if none */
} sattn_stub_stats;

/* Of all launches since the last sattn_stub_reset; conflicts are extra passes. */
typedef struct sattn_stub_counters {
  unsigned long long mma, ldmatrix, ldmatrix_conflicts, async_copies, async_conflicts, shared_accesses, shared_conflicts, barriers,
      warp_syncs, global_stores, instructions;
} sattn_stub_counters;

void sattn_stub_get_stats(sattn_stub_stats *out);
void sattn_stub_get_counters(sattn_stub_counters *out);
/* Sums to zero; live objects stay, and so does what is set to fail. */
void sattn_stub_reset(void);

/* The n-th call from now (1 is the next) fails with code; 0 for never. A release that
   fails has released all the same, as one that reports an earlier error has. */
void sattn_stub_fail_at(long n, int code);
/* The call number skip + 1 of this name fails; NULL for never. */
void sattn_stub_fail_name(const char *name, long skip, int code);
/* The n-th kernel from now fails when it runs, and the error sticks. */
void sattn_stub_fail_kernel(long n, int code);

/* "capability" (75, 80, 90), "devices", "memory" (bytes of each), "multiprocessors", "driver" (12020),
   "engine" (0 host, 1 ptx), "banks" (1: count conflicts of all accesses). 0 if unknown.
   Before cuInit for devices; for the rest before it matters. */
int sattn_stub_set(const char *name, long long value);

/* How many contexts the calling thread has pushed. */
int sattn_stub_context_depth(void);
/* The last misuse or kernel error, "" if none. Valid until the next call. */
const char *sattn_stub_report(void);
/* Runs fn(data) in stream order, or puts it into the graph being captured: for stubs of
   libraries that sit on the driver. Returns a CUresult. */
int sattn_stub_enqueue(void *stream, int (*fn)(void *data), void *data, void (*destroy)(void *data));

#ifdef __cplusplus
}
#endif
#endif
