/* The tile instructions of AMX, as inline assembly. Only for x86-64 processors that have them and a process that may use them (cl_amx.c).
 *
 *     a tile: 16 rows of 64 bytes, here always one after the other in memory (1 KiB)
 *
 *        A  [16][32] bf16            B  [16][16][2] bf16                C  [16][16] fp32
 *      +----------------+          +----------------------+          +------------+
 *      | row m          |    x     | row r: 16 columns,   |    =     | C += A B   |     sums over 32 k:
 *      | k 0 .. 31      |          | each k = 2r, 2r + 1  |          |            |     C[m][n] += A[m][k] B[k / 2][n][k % 2]
 *      +----------------+          +----------------------+          +------------+
 *
 * Products of bf16 are exact in fp32; subnormal numbers count as zero on both sides. Tiles 0 to 3 are sums, 4 and 5 A, 6 and 7 B. A
 * processor in the configured state saves 8 KiB more at every switch of threads, so a work-item configures first and releases last.
 */
#define TILE_ZERO(t)           __asm__ volatile("tilezero %%tmm" #t ::: "memory")
#define TILE_LOAD(t, from)     __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"((long)64) : "memory")
#define TILE_STORE(t, to)      __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"((long)64) : "memory")
#define TILE_MULTIPLY(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")
#define TILE_RELEASE()         __asm__ volatile("tilerelease" ::: "memory")

typedef struct tile_config {
  uchar palette, start_row, reserved[14];
  ushort row_bytes[16];
  uchar rows[16];
} tile_config;

static inline void tile_configure(void) {
  tile_config config __attribute__((aligned(64)));
  config.palette = 1;
  config.start_row = 0;
  for (int i = 0; i < 14; ++i) config.reserved[i] = 0;
  for (int t = 0; t < 16; ++t) {
    config.row_bytes[t] = t < 8 ? 64 : 0;
    config.rows[t] = t < 8 ? 16 : 0;
  }
  __asm__ volatile("ldtilecfg (%0)" ::"r"(&config) : "memory");
}
