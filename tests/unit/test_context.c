/* Backends, devices, and contexts with their options and environment. */
#include "backend.h"

#include "unit.h"

static const char *const variables[] = {"SATTN_DEVICE", "SATTN_KERNELS",  "SATTN_CACHE_DIR", "SATTN_BUILD_OPTIONS",
                                        "SATTN_TRACE",  "XDG_CACHE_HOME", "SATTN_AMX"};

static int clean_environment(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; ++i) unsetenv(variables[i]);
  setenv("HOME", "/home/of/nobody", 1);
  return 0;
}

static void backends_have_names(void **state) {
  (void)state;
  const char *const names[] = {"reference", "opencl", "cuda"};
  for (int i = 1; i <= SATTN_BACKEND_COUNT; ++i) {
    assert_string_equal(sattn_backend_name((sattn_backend)i), names[i - 1]);
    assert_non_null(sattn_registry_get((sattn_backend)i));
    assert_int_equal(sattn_registry_get((sattn_backend)i)->backend, i);
  }
  assert_null(sattn_backend_name((sattn_backend)0));
  assert_null(sattn_registry_get((sattn_backend)0));
  assert_null(sattn_registry_get((sattn_backend)4));
}

static void probe_count_and_facts_agree(void **state) {
  (void)state;
  for (int i = 1; i <= SATTN_BACKEND_COUNT; ++i) {
    sattn_error error = {0};
    uint32_t count = 77;
    sattn_status status = sattn_backend_probe((sattn_backend)i, &error);
    assert_int_equal(sattn_device_count((sattn_backend)i, &count, NULL), SATTN_OK);
    assert_int_equal(status == SATTN_OK, count > 0);
    if (status != SATTN_OK) unit_refused(status, SATTN_UNAVAILABLE, &error, NULL, NULL);
    for (uint32_t d = 0; d < count; ++d) {
      sattn_device_info info;
      sattn_device_info_init(&info);
      unit_ok(sattn_device_get_info((sattn_backend)i, d, &info, &error), &error);
      char id[32];
      snprintf(id, sizeof id, "%s:%u", sattn_backend_name((sattn_backend)i), d);
      assert_string_equal(info.id, id);
      assert_int_equal(info.index, d);
      assert_int_equal(info.backend, i);
      assert_true(info.name[0] != '\0');
    }
  }
  assert_int_equal(sattn_backend_probe(SATTN_BACKEND_REFERENCE, NULL), SATTN_OK);
}

static void bad_backends_and_devices(void **state) {
  (void)state;
  sattn_error error = {0};
  uint32_t count = 77;
  sattn_device_info info;
  sattn_device_info_init(&info);
  unit_refused(sattn_backend_probe((sattn_backend)9, &error), SATTN_INVALID_ARGUMENT, &error, "backend is 9", NULL);
  unit_refused(sattn_device_count((sattn_backend)0, &count, &error), SATTN_INVALID_ARGUMENT, &error, "backend is 0", NULL);
  unit_refused(sattn_device_count(SATTN_BACKEND_REFERENCE, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "out_count", NULL);
  unit_refused(sattn_device_get_info(SATTN_BACKEND_REFERENCE, 1, &info, &error), SATTN_INVALID_ARGUMENT, &error, "index is 1", "1 device");
  info.struct_size = 0;
  unit_refused(sattn_device_get_info(SATTN_BACKEND_REFERENCE, 0, &info, &error), SATTN_INVALID_ARGUMENT, &error, "struct_size", NULL);
  unit_refused(sattn_device_get_info(SATTN_BACKEND_REFERENCE, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "out_info", NULL);
  assert_int_equal(count, 77);
}

static sattn_context *open_device(const char *id, const sattn_context_options *options) {
  sattn_context *context = NULL;
  sattn_error error = {0};
  unit_ok(sattn_context_create(id, options, &context, &error), &error);
  return context;
}

static void refuse(const char *id, const sattn_context_options *options, sattn_status status, const char *word, const char *value) {
  static int untouched;
  sattn_context *context = (sattn_context *)&untouched;
  sattn_error error = {0};
  unit_refused(sattn_context_create(id, options, &context, &error), status, &error, word, value);
  assert_ptr_equal(context, &untouched);
}

static void devices_by_name(void **state) {
  (void)state;
  const char *const ids[] = {"reference", "reference:0"};
  for (size_t i = 0; i < 2; ++i) {
    sattn_context *context = open_device(ids[i], NULL);
    assert_string_equal(sattn_context_device(context)->id, "reference:0");
    sattn_context_destroy(&context);
    assert_null(context);
  }
  sattn_context_destroy(NULL);
  assert_null(sattn_context_device(NULL));
  const char *const unknown[] = {"",
                                 "ref",
                                 "references",
                                 "reference:",
                                 "reference:x",
                                 "reference:0x",
                                 "reference:-1",
                                 "reference:0:0",
                                 ":0",
                                 "vulkan:0",
                                 "reference:99999999999999999999"};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; ++i) refuse(unknown[i], NULL, SATTN_INVALID_ARGUMENT, "device_id", unknown[i]);
  refuse("reference:1", NULL, SATTN_UNAVAILABLE, "reference:1", "1 device");
  sattn_error error = {0};
  unit_refused(sattn_context_create("reference", NULL, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "out_context", NULL);
  assert_int_equal(sattn_context_create("nothing", NULL, NULL, NULL), SATTN_INVALID_ARGUMENT);
}

static void environment_replaces_null_only(void **state) {
  (void)state;
  setenv("SATTN_DEVICE", "reference:0", 1);
  sattn_context *context = open_device(NULL, NULL);
  assert_string_equal(sattn_context_device(context)->id, "reference:0");
  sattn_context_destroy(&context);
  setenv("SATTN_DEVICE", "reference:7", 1);
  refuse(NULL, NULL, SATTN_UNAVAILABLE, "SATTN_DEVICE", "reference:7");
  setenv("SATTN_DEVICE", "nonsense", 1);
  refuse(NULL, NULL, SATTN_INVALID_ARGUMENT, "SATTN_DEVICE", "nonsense");
  context = open_device("reference", NULL);
  sattn_context_destroy(&context);
  setenv("SATTN_DEVICE", "", 1);
  context = open_device(NULL, NULL);
  sattn_context_destroy(&context);
}

/* The default prefers CUDA, then OpenCL GPUs, then OpenCL CPUs; the reference only where nothing else is there. */
static void default_is_the_best_present(void **state) {
  (void)state;
  uint32_t opencl = 0, cuda = 0;
  assert_int_equal(sattn_device_count(SATTN_BACKEND_OPENCL, &opencl, NULL), SATTN_OK);
  assert_int_equal(sattn_device_count(SATTN_BACKEND_CUDA, &cuda, NULL), SATTN_OK);
  sattn_context *context = open_device(NULL, NULL);
  sattn_backend expected = cuda > 0 ? SATTN_BACKEND_CUDA : opencl > 0 ? SATTN_BACKEND_OPENCL : SATTN_BACKEND_REFERENCE;
  assert_int_equal(sattn_context_device(context)->backend, expected);
  sattn_context_destroy(&context);
}

static void kernel_families(void **state) {
  (void)state;
  sattn_context_options options;
  sattn_context_options_init(&options);
  sattn_context *context = open_device("reference", &options);
  assert_int_equal(context->kernels, SATTN_KERNELS_AUTO);
  sattn_context_destroy(&context);
  const char *const words[] = {"auto", "cpu", "gpu", "general"};
  for (int i = 0; i < 4; ++i) {
    setenv("SATTN_KERNELS", words[i], 1);
    context = open_device("reference", &options);
    assert_int_equal(context->kernels, i);
    sattn_context_destroy(&context);
  }
  options.kernels = SATTN_KERNELS_GPU; /* an explicit family is stronger than the environment */
  context = open_device("reference", &options);
  assert_int_equal(context->kernels, SATTN_KERNELS_GPU);
  sattn_context_destroy(&context);
  options.kernels = (sattn_kernel_family)4;
  refuse("reference", &options, SATTN_INVALID_ARGUMENT, "kernels", "4");
  options.kernels = SATTN_KERNELS_AUTO;
  setenv("SATTN_KERNELS", "fast", 1);
  refuse("reference", &options, SATTN_INVALID_ARGUMENT, "SATTN_KERNELS", "fast");
  refuse(NULL, &options, SATTN_INVALID_ARGUMENT, "SATTN_KERNELS", "fast");
  options.struct_size = 0;
  refuse("reference", &options, SATTN_INVALID_ARGUMENT, "struct_size", NULL);
}

static void tile_instructions(void **state) {
  (void)state;
  static const char *const words[] = {"auto", "", "0"};
  for (int i = 0; i < 3; ++i) {
    setenv("SATTN_AMX", words[i], 1);
    sattn_context *context = open_device("reference", NULL);
    assert_int_equal(context->amx, i < 2);
    sattn_context_destroy(&context);
  }
  setenv("SATTN_AMX", "1", 1);
  refuse("reference", NULL, SATTN_INVALID_ARGUMENT, "SATTN_AMX", "auto or 0");
}

static void check_cache(const char *chosen, const char *expected) {
  sattn_context_options options;
  sattn_context_options_init(&options);
  options.cache_directory = chosen;
  sattn_context *context = open_device("reference", &options);
  if (expected == NULL) {
    assert_null(context->cache_directory);
  } else {
    assert_non_null(context->cache_directory);
    assert_string_equal(context->cache_directory, expected);
  }
  sattn_context_destroy(&context);
}

static void cache_directories(void **state) {
  (void)state;
  check_cache(NULL, "/home/of/nobody/.cache/sattn");
  setenv("XDG_CACHE_HOME", "relative", 1);
  check_cache(NULL, "/home/of/nobody/.cache/sattn");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  check_cache(NULL, "/xdg/sattn");
  setenv("SATTN_CACHE_DIR", "/own", 1);
  check_cache(NULL, "/own");
  check_cache("/chosen", "/chosen");
  check_cache("", NULL);
  setenv("SATTN_CACHE_DIR", "", 1);
  check_cache(NULL, NULL);
  unsetenv("SATTN_CACHE_DIR");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  check_cache(NULL, NULL);
}

static void build_options(void **state) {
  (void)state;
  sattn_context_options options;
  sattn_context_options_init(&options);
  sattn_context *context = open_device("reference", &options);
  assert_string_equal(context->build_options, "");
  sattn_context_destroy(&context);
  setenv("SATTN_BUILD_OPTIONS", "-g", 1);
  context = open_device("reference", &options);
  assert_string_equal(context->build_options, "-g");
  sattn_context_destroy(&context);
  options.build_options = "-cl-opt-disable";
  context = open_device("reference", &options);
  assert_string_equal(context->build_options, "-cl-opt-disable");
  sattn_context_destroy(&context);
}

static void logs_and_counts(void **state) {
  (void)state;
  sattn_context *context = open_device("reference", NULL);
  char text[4] = "xyz";
  assert_int_equal(sattn_context_build_log(context, text, sizeof text), 0);
  assert_string_equal(text, "");
  sattn_context_set_build_log(context, "error: 42");
  assert_int_equal(sattn_context_build_log(context, text, sizeof text), 9);
  assert_string_equal(text, "err");
  assert_int_equal(sattn_context_build_log(context, NULL, 0), 9);
  uint64_t compiled = 7, cached = 7;
  sattn_context_program_counts(context, &compiled, &cached);
  assert_true(compiled == 0 && cached == 0);
  sattn_context_program_counts(context, NULL, NULL);
  sattn_context_program_counts(NULL, &compiled, NULL);
  sattn_context_destroy(&context);
  assert_int_equal(sattn_context_build_log(NULL, text, sizeof text), 0);
}

static void events_and_queues(void **state) {
  (void)state;
  sattn_context *context = open_device("reference", NULL);
  sattn_event event = {NULL};
  assert_int_equal(sattn_event_wait(context, event, NULL), SATTN_OK);
  sattn_event_release(context, &event);
  sattn_event_release(context, NULL);
  assert_int_equal(sattn_queue_finish(context, (sattn_queue){NULL}, NULL), SATTN_OK);
  sattn_error error = {0};
  unit_refused(sattn_event_wait(NULL, event, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  unit_refused(sattn_queue_finish(NULL, (sattn_queue){NULL}, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  sattn_context_destroy(&context);
}

static void made_and_destroyed_again(void **state) {
  (void)state;
  for (int i = 0; i < 20; ++i) {
    sattn_context *a = open_device("reference", NULL), *b = open_device("reference", NULL);
    assert_true(a != b);
    sattn_context_destroy(&a);
    sattn_context_destroy(&b);
  }
}

#define CLEAN(test) cmocka_unit_test_setup(test, clean_environment)
static const struct CMUnitTest tests[] = {
    CLEAN(backends_have_names),
    CLEAN(probe_count_and_facts_agree),
    CLEAN(bad_backends_and_devices),
    CLEAN(devices_by_name),
    CLEAN(environment_replaces_null_only),
    CLEAN(default_is_the_best_present),
    CLEAN(kernel_families),
    CLEAN(tile_instructions),
    CLEAN(cache_directories),
    CLEAN(build_options),
    CLEAN(logs_and_counts),
    CLEAN(events_and_queues),
    CLEAN(made_and_destroyed_again),
};
UNIT_MAIN(tests)
