/* The caller's context, queues, buffers, events and threads: field faults P-C1, P-C4, P-C6, P-R10. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "conformance_opencl.h"
#include "opencl_driver.h"

#define THREADS 8
#define ROUNDS  25

static void pause_briefly(void) {
  const struct timespec time = {0, 20000000};
  nanosleep(&time, NULL);
}

/* Opens and sends; records a failure otherwise. */
static int ready(test_env *env, sattn_context *context, const test_call *call, sattn_plan *plan, test_run *run) {
  sattn_error error;
  sattn_status status = test_run_open(context, call, plan, run, &error);
  if (!status) {
    status = test_run_send(run, &error);
    if (status) test_run_close(run);
  }
  if (status) test_fail(env->suite, "%s: %s", sattn_status_name(status), error.message);
  return status == SATTN_OK;
}

/* Enqueues on `queue`, waits for nothing but the returned event, compares. */
static void run_on_queue(test_env *env, test_run *run, cl_command_queue queue, const char *label) {
  sattn_error error;
  sattn_event event = {NULL};
  test_result result;
  if (test_run_enqueue(run, sattn_queue_opencl(queue), NULL, 0, &event, &error) || sattn_event_wait(run->context, event, &error)) {
    test_fail(env->suite, "%s: %s", label, error.message);
  } else {
    const char *fault = test_run_fetch(run, &result, &error);
    if (fault) test_fail(env->suite, "%s: %s", label, fault);
    test_check_result(env, run->call, label, &result);
  }
  sattn_event_release(run->context, &event);
}

/* P-C4: on an out-of-order queue the kernels of a call are chained by events. */
static void out_of_order_queue(test_env *env) {
  const opencl_driver *cl = opencl_driver_open();
  cl_int code;
  test_call call;
  test_run run;
  cl_command_queue queue = cl->create_queue(sattn_context_opencl(env->context), sattn_context_opencl_device(env->context),
                                            CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
  if (!queue) {
    test_fail(env->suite, "no queue: %d", (int)code);
    return;
  }
  test_call_init(&call, env->mode, 2, 60, 60, 2, 1, 64);
  test_call_fill(&call, &env->random, 1.0);
  if (ready(env, env->context, &call, NULL, &run)) {
    sattn_error error;
    for (int round = 0; round < 20 && !env->suite->failures; ++round) {
      if (test_run_send(&run, &error)) test_fail(env->suite, "%s", error.message);
      run_on_queue(env, &run, queue, "out of order");
    }
    test_run_close(&run);
  }
  cl->finish(queue);
  cl->release_queue(queue);
}

/* A call waits for the events that it is given, and for nothing else. */
static void wait_list(test_env *env) {
  const opencl_driver *cl = opencl_driver_open();
  cl_int code;
  test_call call;
  test_run run;
  sattn_error error;
  sattn_queue queue = {NULL};
  sattn_event done = {NULL};
  cl_event gate = cl->create_user_event(sattn_context_opencl(env->context), &code);
  test_call_init(&call, env->mode, 1, 40, 40, 2, 1, 64);
  test_call_fill(&call, &env->random, 1.0);
  if (!gate || !ready(env, env->context, &call, NULL, &run)) return;
  sattn_event first = sattn_event_opencl(gate);
  if (test_run_enqueue(&run, queue, &first, 1, &done, &error)) {
    test_fail(env->suite, "%s", error.message);
    cl->set_user_event(gate, CL_COMPLETE);
  } else {
    cl_int state = CL_COMPLETE;
    pause_briefly();
    cl->event_info(sattn_event_to_opencl(done), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (state == CL_COMPLETE) test_fail(env->suite, "complete before the event it waits for");
    cl->set_user_event(gate, CL_COMPLETE);
    test_result result;
    if (sattn_event_wait(env->context, done, &error)) test_fail(env->suite, "%s", error.message);
    const char *fault = test_run_fetch(&run, &result, &error);
    if (fault) test_fail(env->suite, "%s", fault);
    test_check_result(env, &call, "after the event", &result);
    sattn_event_release(env->context, &done);
  }
  cl->release_event(gate);
  test_run_close(&run);
}

/* ---- the caller's context and buffers ---- */

typedef struct caller {
  const opencl_driver *cl;
  cl_context context;
  cl_command_queue queue;
  sattn_context *wrapped;
} caller;

static int open_caller(test_env *env, caller *c) {
  cl_int code;
  sattn_error error;
  cl_device_id device = sattn_context_opencl_device(env->context);
  memset(c, 0, sizeof *c);
  c->cl = opencl_driver_open();
  c->context = c->cl->create_context(NULL, 1, &device, NULL, NULL, &code);
  c->queue = c->context ? c->cl->create_queue(c->context, device, 0, &code) : NULL;
  if (!c->queue) {
    test_fail(env->suite, "no queue: %d", (int)code);
    return 0;
  }
  if (sattn_context_create_opencl(c->context, device, NULL, &c->wrapped, &error)) {
    test_fail(env->suite, "%s: %s", sattn_status_name(error.status), error.message);
    return 0;
  }
  if (sattn_context_opencl(c->wrapped) != c->context || sattn_context_opencl_device(c->wrapped) != device)
    test_fail(env->suite, "another context or device comes back");
  return 1;
}

static void close_caller(caller *c) {
  sattn_context_destroy(&c->wrapped);
  if (c->queue) c->cl->release_queue(c->queue);
  if (c->context) c->cl->release_context(c->context);
}

static void callers_context(test_env *env) {
  caller c;
  test_call call;
  test_run run;
  test_call_init(&call, env->mode, 2, 50, 50, 4, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  if (open_caller(env, &c) && ready(env, c.wrapped, &call, NULL, &run)) {
    run_on_queue(env, &run, c.queue, "the caller's queue");
    test_run_close(&run);
  }
  close_caller(&c);
}

/* Query, key, value and output in ONE cl_mem at element offsets; the caller lets go of it at once (P-C6). */
static void callers_buffer(test_env *env) {
  caller c;
  cl_int code;
  sattn_error error;
  test_call call;
  test_run run;
  const size_t rows = 30 * 2 * 64;
  if (!open_caller(env, &c)) {
    close_caller(&c);
    return;
  }
  test_call_init(&call, SATTN_STOCHASTIC, 1, 30, 30, 2, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  cl_mem memory = c.cl->create_buffer(c.context, CL_MEM_READ_WRITE, (4 * rows + 1) * sizeof(float), NULL, &code);
  sattn_buffer *buffer = NULL;
  if (!memory || sattn_buffer_wrap_opencl(c.wrapped, memory, &buffer, &error)) {
    test_fail(env->suite, "%s", memory ? error.message : "no memory");
  } else if (ready(env, c.wrapped, &call, NULL, &run)) {
    float *got = test_memory(rows * sizeof *got);
    if (sattn_buffer_size(buffer) != (4 * rows + 1) * sizeof(float)) test_fail(env->suite, "size");
    for (int i = 0; i < 3; ++i)
      c.cl->write_buffer(c.queue, memory, CL_TRUE, (1 + (size_t)i * rows) * sizeof(float), rows * sizeof(float), call.input[TEST_QUERY + i],
                         0, NULL, NULL);
    sattn_tensor *const tensors[4] = {&run.forward.query, &run.forward.key, &run.forward.value, &run.forward.out};
    for (int i = 0; i < 4; ++i) *tensors[i] = (sattn_tensor){buffer, (int64_t)(1 + (size_t)i * rows), 0, 0, 0};
    if (sattn_forward(run.plan, &run.forward, sattn_queue_opencl(c.queue), NULL, 0, NULL, &error))
      test_fail(env->suite, "%s", error.message);
    c.cl->read_buffer(c.queue, memory, CL_TRUE, (1 + 3 * rows) * sizeof(float), rows * sizeof(float), got, 0, NULL, NULL);
    c.cl->release_buffer(memory);
    memory = NULL;
    test_result result = {{NULL}};
    test_result other;
    test_run_fetch(&run, &other, &error);
    result.output[TEST_OUT] = got;
    result.output[TEST_LSE] = other.output[TEST_LSE];
    test_check_result(env, &call, "one cl_mem", &result);
    test_run_close(&run);
  }
  sattn_buffer_destroy(&buffer);
  if (memory) c.cl->release_buffer(memory);
  close_caller(&c);
}

/* ---- threads ---- */

typedef struct worker {
  test_run run;
  const unsigned char *expected; /* bytes of the block of the output */
  int wrong;
  char message[256];
} worker;

static void *work(void *argument) {
  worker *w = argument;
  sattn_error error;
  sattn_queue queue = {NULL};
  test_guard *out = &w->run.block[w->run.output_block[TEST_OUT]];
  for (int round = 0; round < ROUNDS && !w->wrong; ++round) {
    sattn_event event = {NULL};
    if (test_guard_send(out, &error) || test_run_enqueue(&w->run, queue, NULL, 0, &event, &error) ||
        sattn_event_wait(w->run.context, event, &error) || test_guard_fetch(out, &error)) {
      w->wrong = 1;
      snprintf(w->message, sizeof w->message, "round %d: %.200s", round, error.message);
    } else if (memcmp(out->now, w->expected, out->bytes) != 0) {
      w->wrong = 1;
      snprintf(w->message, sizeof w->message, "round %d: other bits than the serial call", round);
    }
    sattn_event_release(w->run.context, &event);
  }
  return NULL;
}

/* The serial answer, kept for comparison. */
static int serial_answer(test_env *env, worker *w) {
  sattn_error error;
  sattn_queue queue = {NULL};
  test_guard *out = &w->run.block[w->run.output_block[TEST_OUT]];
  if (test_run_enqueue(&w->run, queue, NULL, 0, NULL, &error) || sattn_queue_finish(env->context, queue, &error) ||
      test_guard_fetch(out, &error)) {
    test_fail(env->suite, "%s", error.message);
    return 0;
  }
  unsigned char *kept = test_memory(out->bytes);
  memcpy(kept, out->now, out->bytes);
  w->expected = kept;
  return 1;
}

static void run_threads(test_env *env, worker *workers, int count) {
  pthread_t threads[THREADS];
  int started = 0;
  while (started < count && pthread_create(&threads[started], NULL, work, &workers[started]) == 0) ++started;
  if (started < count) test_fail(env->suite, "only %d threads", started);
  for (int i = 0; i < started; ++i) {
    pthread_join(threads[i], NULL);
    if (workers[i].wrong) test_fail(env->suite, "thread %d: %s", i, workers[i].message);
  }
}

/* P-C1: own plans of different modes and sizes, or one plan for all; own workspaces always. */
static void threads_with_plans(test_env *env, int shared) {
  static const sattn_mode modes[3] = {SATTN_STOCHASTIC, SATTN_SLIDING_WINDOW, SATTN_FULL};
  worker *workers = test_memory(THREADS * sizeof *workers);
  test_call *calls = test_memory(THREADS * sizeof *calls);
  sattn_plan *plan = NULL;
  sattn_error error;
  int opened = 0;
  for (int i = 0; i < THREADS; ++i) {
    int64_t n = 20 + 9 * i;
    test_call_init(&calls[i], shared ? SATTN_STOCHASTIC : modes[i % 3], 1, n, n, 2, 1, 64);
    if (shared) calls[i].attention.window_sa = sattn_window_width(11);
    calls[i].key.seed = (uint64_t)i;
    test_call_fill(&calls[i], &env->random, 1.0);
  }
  const sattn_sizes maxima = {1, 100, 100};
  if (shared && sattn_plan_create(env->context, &calls[0].attention, &maxima, SATTN_PASS_FORWARD, &plan, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  while (opened < THREADS && ready(env, env->context, &calls[opened], plan, &workers[opened].run)) {
    if (!serial_answer(env, &workers[opened++])) break;
  }
  if (!env->suite->failures) run_threads(env, workers, opened);
  for (int i = 0; i < opened; ++i) test_run_close(&workers[i].run);
  sattn_plan_destroy(&plan);
}

static void threads_own_plans(test_env *env) {
  threads_with_plans(env, 0);
}
static void threads_one_plan(test_env *env) {
  threads_with_plans(env, 1);
}

void cases_opencl_queues(test_suite *suite) {
  if (!opencl_driver_open()) {
    if (!test_suite_begin(suite, "opencl-loader")) return;
    test_fail(suite, "libOpenCL.so.1 cannot be opened");
    test_suite_end(suite);
    return;
  }
  test_case_modes(suite, "out-of-order-queue", MODES_ALL, out_of_order_queue);
  test_case_modes(suite, "wait-list", MODE(SATTN_STOCHASTIC) | MODE(SATTN_GATED), wait_list);
  test_case_modes(suite, "callers-context", MODES_ALL, callers_context);
  test_case_run(suite, "callers-buffer", callers_buffer);
  test_case_run(suite, "threads-own-plans", threads_own_plans);
  test_case_run(suite, "threads-one-plan", threads_one_plan);
}
