/* Status codes and error messages, and the rules that hold for the whole API.
 *
 * Rules stated once, kept everywhere:
 *
 * - Every function that can fail returns a sattn_status and takes, as its last parameter, a sattn_error that receives the message.
 *   The error may be NULL. Parameters named out_* are written only on success, with one documented exception: out_error itself.
 * - A refused call has no effect: nothing was enqueued, no output was written, every object is as before and stays usable.
 *   An asynchronous call whose driver fails in the middle (SATTN_DRIVER_ERROR) gives no event, but what it enqueued so far may still run:
 *   call sattn_queue_finish before its arrays are read or freed.
 * - Structs that the caller fills begin with `struct_size` and have an _init function. Call it first, then change what differs:
 *   all fields of an initialised struct mean the default. A struct of an older library version (smaller struct_size) is accepted,
 *   and what it lacks takes its default; a struct_size of zero, larger than the library knows, or no
 *   multiple of sizeof(size_t) is refused.
 * - Objects are made by _create functions and end by _destroy functions, which take the address of the handle, set it to NULL,
 *   and do nothing when it is NULL already. Whoever creates, destroys. Pointers that an accessor returns are borrowed.
 *   Objects made from another object (a plan from a context) must be destroyed before it, unless their text says otherwise.
 * - Memory named by pointer parameters is needed only until the call returns, except device memory given to an asynchronous call.
 * - The library keeps no global state: two objects never influence one another. It never exits, aborts, prints (unless the environment
 *   variable SATTN_TRACE asks for it, see trace below) or touches the caller's random numbers, locale or signal handlers.
 *
 * Tracing: SATTN_TRACE is a comma-separated list of
 *     error      every refusal, with its message
 *     dispatch   which backend, device and kernel was chosen, and why the others were not
 *     build      programs compiled or taken from the cache, with seconds
 *     all        all of them
 * Lines go to standard error as `sattn:LEVEL: text`. The variable is read once, when a context is created.
 *
 * Source: contract section 7 ("Promises").
 */
#ifndef SATTN_STATUS_H
#define SATTN_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include <sattn/export.h>

SATTN_BEGIN_DECLS

/* Values are stable: a code keeps its number for ever; new ones fill the gaps. */
typedef enum sattn_status {
  SATTN_OK = 0,
  /* The caller broke a rule of the contract: the message names argument, value and rule. The same call can never succeed. */
  SATTN_INVALID_ARGUMENT = 10,
  /* Valid by the contract, but this backend or device cannot do it; another one (the reference always) can. */
  SATTN_UNSUPPORTED = 20,
  /* The backend, driver, device or helper library is not there. The message says what to install. */
  SATTN_UNAVAILABLE = 30,
  /* Memory of the host or the device ran out, or one allocation exceeds what the device allows. The message has needed and allowed size. */
  SATTN_OUT_OF_MEMORY = 40,
  /* The driver's compiler refused a program. The whole log is kept: sattn_context_build_log(). */
  SATTN_BUILD_FAILED = 50,
  /* A driver call failed for another reason; sattn_error.driver_code holds its own code, unchanged. */
  SATTN_DRIVER_ERROR = 60,
  /* What was saved by a forward call does not fit the backward call (another plan, permutation or shape). */
  SATTN_MISMATCH = 70,
  /* A file could not be read or written. */
  SATTN_IO_ERROR = 80,
  /* A fault of this library. Please report it. */
  SATTN_INTERNAL = 90
} sattn_status;

/* The symbol's own name, such as "SATTN_INVALID_ARGUMENT"; "unknown status" for any other value. Static storage. Thread-safety: safe. */
SATTN_API const char *sattn_status_name(sattn_status status);

/* What went wrong, for people and for programs. A plain value: keep it, copy it, pass NULL if it is not wanted.
 * On success the library leaves it alone. Ownership: the caller's. */
typedef struct sattn_error {
  sattn_status status; /* the same value that the function returned */
  int32_t driver_code; /* the cl_int or CUresult that caused it, unchanged; 0 when no driver was involved */
  char argument[64];   /* name of the offending argument or field, such as "window_sa.left"; empty when none is to blame */
  char message[960];   /* one sentence: argument, value, rule. Always terminated; no newline */
} sattn_error;

SATTN_END_DECLS

#endif
