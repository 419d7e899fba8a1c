/* threads --backend NAME [--device ID] [--case PATTERN]... [--seed N]: eight threads at once give the bits of one (field fault P-C1).
 *
 *     own plans      one context, every thread with a plan, a queue and a workspace of its own
 *     one plan       one plan for all, workspaces of their own
 *     own contexts   every thread makes a context, plan and permutation, uses them, and gives them back
 *     plans at once  threads make plans and permutations in one context at the same time
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "queue.h"
#include "run.h"
#include "suite.h"

#define THREADS 8

typedef struct worker {
  const char *device;
  sattn_context *context;
  const test_call *call;
  const test_result *expected;
  test_run run;
  int rounds;
  char message[400]; /* empty: all was well */
} worker;

/* SATTN_TEST_ROUNDS asks for more. */
static int rounds(void) {
  const char *more = getenv("SATTN_TEST_ROUNDS");
  return more ? atoi(more) : 12;
}

static void compare(worker *w, const test_result *got, int round) {
  for (int o = 0; o < TEST_OUTPUTS && !w->message[0]; ++o) {
    test_difference difference;
    if (!w->expected->output[o]) continue;
    if (test_compare_bits(test_output_name((test_output)o), test_output_shape(w->call, (test_output)o), w->expected->output[o],
                          got->output[o], &difference))
      snprintf(w->message, sizeof w->message, "round %d: %s", round, difference.report);
  }
}

/* ---- what threads do ---- */

/* The run is open. */
static void *enqueue_often(void *argument) {
  worker *w = argument;
  sattn_queue queue = thread_queue_open(w->context);
  for (int round = 0; round < w->rounds && !w->message[0]; ++round) {
    sattn_error error;
    sattn_event event = {NULL};
    test_result result;
    if (test_run_send(&w->run, &error) || test_run_enqueue(&w->run, queue, NULL, 0, &event, &error) ||
        sattn_event_wait(w->context, event, &error)) {
      snprintf(w->message, sizeof w->message, "round %d: %.300s", round, error.message);
    } else {
      const char *fault = test_run_fetch(&w->run, &result, &error);
      if (fault) snprintf(w->message, sizeof w->message, "round %d: %.300s", round, fault);
      if (!fault) compare(w, &result, round);
    }
    sattn_event_release(w->context, &event);
  }
  thread_queue_close(w->context, queue);
  return NULL;
}

static void *use_everything(void *argument) {
  worker *w = argument;
  for (int round = 0; round < (w->rounds + 3) / 4 && !w->message[0]; ++round) {
    sattn_error error;
    sattn_context *own = NULL;
    test_result result;
    const char *fault = NULL;
    if ((!w->context && sattn_context_create(w->device, NULL, &own, &error)) ||
        test_run_call(w->context ? w->context : own, w->call, &result, &fault, &error) || fault) {
      snprintf(w->message, sizeof w->message, "round %d: %.300s", round, fault ? fault : error.message);
    } else {
      compare(w, &result, round);
    }
    sattn_context_destroy(&own);
  }
  return NULL;
}

/* ---- cases ---- */

static void make_calls(test_suite *suite, test_call *calls, test_result *expected, int shared) {
  static const sattn_mode modes[] = {SATTN_STOCHASTIC, SATTN_SLIDING_WINDOW, SATTN_MOBA, SATTN_GATED};
  test_random random = test_random_open(suite->seed, suite->name);
  for (int i = 0; i < THREADS; ++i) {
    int64_t n = 20 + 7 * i;
    test_call *call = &calls[i];
    test_call_init(call, shared ? SATTN_GATED : modes[i % 4], 1, n, n, 2, 1, 16);
    if (shared) call->attention.window_sa = call->attention.window_swa = sattn_window_width(9);
    call->attention.dtype = shared ? SATTN_FP32 : (sattn_dtype)(SATTN_FP32 + i / 4);
    call->maxima = shared ? (sattn_sizes){1, 80, 80} : call->sizes;
    call->key.seed = (uint64_t)i;
    test_call_fill(call, &random, 1.0);
    test_call_fill_gradients(call, &random, 1);
    sattn_error error;
    const char *fault = NULL;
    if (test_run_call(suite->context, call, &expected[i], &fault, &error) || fault)
      test_fail(suite, "serial call %d: %s", i, fault ? fault : error.message);
  }
}

static void run_threads(test_suite *suite, worker *workers, void *(*work)(void *)) {
  pthread_t threads[THREADS];
  int started = 0;
  while (started < THREADS && pthread_create(&threads[started], NULL, work, &workers[started]) == 0) ++started;
  if (started < THREADS) test_fail(suite, "only %d threads", started);
  for (int i = 0; i < started; ++i) {
    pthread_join(threads[i], NULL);
    if (workers[i].message[0]) test_fail(suite, "thread %d: %s", i, workers[i].message);
  }
}

static void check(test_suite *suite, const char *name, int shared, sattn_context *context, void *(*work)(void *)) {
  static worker workers[THREADS];
  test_call calls[THREADS];
  test_result expected[THREADS];
  sattn_plan *plan = NULL;
  sattn_error error;
  if (!test_suite_begin(suite, name)) return;
  memset(workers, 0, sizeof workers);
  make_calls(suite, calls, expected, shared);
  if (shared &&
      sattn_plan_create(suite->context, &calls[0].attention, &calls[0].maxima, SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD, &plan, &error))
    test_fail(suite, "%s", error.message);
  for (int i = 0; i < THREADS && !suite->failures; ++i) {
    workers[i] = (worker){.device = suite->info.id, .context = context, .call = &calls[i], .expected = &expected[i], .rounds = rounds()};
    if (work == enqueue_often && test_run_open(context, &calls[i], plan, &workers[i].run, &error)) test_fail(suite, "%s", error.message);
  }
  if (!suite->failures) run_threads(suite, workers, work);
  for (int i = 0; i < THREADS; ++i) test_run_close(&workers[i].run);
  sattn_plan_destroy(&plan);
  test_suite_end(suite);
}

static void all_cases(test_suite *suite) {
  check(suite, "own-plans", 0, suite->context, enqueue_often);
  check(suite, "one-plan", 1, suite->context, enqueue_often);
  check(suite, "own-contexts", 0, NULL, use_everything);
  check(suite, "plans-at-once", 0, suite->context, use_everything);
}

/* Ends with everything open, and threads that used it: a crash at exit is a failure (P-R7). */
static int leave_open(const char *device) {
  static sattn_context *context;
  static sattn_plan *plan;
  test_call call;
  sattn_error error;
  test_call_init(&call, SATTN_SLIDING_WINDOW, 1, 9, 9, 1, 1, 16);
  if (sattn_context_create(device, NULL, &context, &error) ||
      sattn_plan_create(context, &call.attention, &call.sizes, SATTN_PASS_FORWARD, &plan, &error)) {
    printf("FAILED: %s\n", error.message);
    return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  test_suite suite;
  int status = test_suite_parse(&suite, NULL, argc, argv);
  if (!status) status = test_suite_run(&suite, all_cases);
  if (!status) status = leave_open(sattn_backend_name(suite.backend));
  return status;
}
