/* sattn info: what this build is, what it finds here, and what it has compiled before. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "json.h"
#include "options.h"

static const char *type_name(sattn_device_type type) {
  switch (type) {
    case SATTN_DEVICE_CPU:
      return "CPU";
    case SATTN_DEVICE_GPU:
      return "GPU";
    case SATTN_DEVICE_ACCELERATOR:
      return "accelerator";
  }
  return "unknown";
}

static const struct {
  const char *name;
  size_t offset;
  bool wide; /* uint64_t, else uint32_t */
} FACTS[] = {
    {"compute_units", offsetof(sattn_device_info, compute_units), false},
    {"memory_bytes", offsetof(sattn_device_info, memory_bytes), true},
    {"max_allocation_bytes", offsetof(sattn_device_info, max_allocation_bytes), true},
    {"local_memory_bytes", offsetof(sattn_device_info, local_memory_bytes), true},
    {"max_work_group", offsetof(sattn_device_info, max_work_group), false},
    {"vector_width", offsetof(sattn_device_info, vector_width), false},
    {"compute_capability", offsetof(sattn_device_info, compute_capability), false},
    {"has_fp16", offsetof(sattn_device_info, has_fp16), false},
    {"has_fp64", offsetof(sattn_device_info, has_fp64), false},
    {"has_subgroups", offsetof(sattn_device_info, has_subgroups), false},
    {"shares_host_memory", offsetof(sattn_device_info, shares_host_memory), false},
};
enum { FACT_COUNT = sizeof FACTS / sizeof FACTS[0] };

static uint64_t fact(const sattn_device_info *info, int index) {
  const char *at = (const char *)info + FACTS[index].offset;
  if (FACTS[index].wide) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
  }
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static void print_device(const sattn_device_info *info) {
  printf("  %-14s %s, %s\n  %-14s driver %s\n", info->id, info->name, type_name(info->type), "", info->driver);
  for (int i = 0; i < FACT_COUNT; i++)
    if (fact(info, i)) printf("  %-14s %-20s %" PRIu64 "\n", "", FACTS[i].name, fact(info, i));
}

static void put_device(const sattn_device_info *info, sattn_json *json) {
  sattn_json_open(json, NULL, '{');
  sattn_json_text(json, "id", info->id);
  sattn_json_text(json, "name", info->name);
  sattn_json_text(json, "driver", info->driver);
  sattn_json_text(json, "type", type_name(info->type));
  for (int i = 0; i < FACT_COUNT; i++) sattn_json_unsigned(json, FACTS[i].name, fact(info, i));
  sattn_json_close(json, '}');
}

static bool show_backend(sattn_backend backend, sattn_json *json, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  uint32_t count = 0;
  bool available = sattn_backend_probe(backend, &error) == SATTN_OK;
  char reason[sizeof error.message];
  memcpy(reason, error.message, sizeof reason);
  if (!sattn_tool_check(report, sattn_device_count(backend, &count, &error), &error)) return false;
  if (json) {
    sattn_json_open(json, NULL, '{');
    sattn_json_text(json, "name", sattn_backend_name(backend));
    sattn_json_bool(json, "available", available);
    sattn_json_text(json, "reason", available ? NULL : reason);
    sattn_json_open(json, "devices", '[');
  } else {
    printf("backend %s: ", sattn_backend_name(backend));
    if (available)
      printf("%" PRIu32 " device%s\n", count, count == 1 ? "" : "s");
    else
      printf("not available: %s\n", reason);
  }
  for (uint32_t i = 0; i < count; i++) {
    sattn_device_info info;
    sattn_device_info_init(&info);
    if (!sattn_tool_check(report, sattn_device_get_info(backend, i, &info, &error), &error)) return false;
    if (json)
      put_device(&info, json);
    else
      print_device(&info);
  }
  if (json) {
    sattn_json_close(json, ']');
    sattn_json_close(json, '}');
  }
  return true;
}

/* ---- the folder of compiled programs (device.h says where it is) ---- */

static bool cache_folder(char *path, size_t capacity) {
  const struct {
    const char *variable, *below;
  } places[] = {{"SATTN_CACHE_DIR", ""}, {"XDG_CACHE_HOME", "/sattn"}, {"HOME", "/.cache/sattn"}};
  for (int i = 0; i < 3; i++) {
    const char *value = getenv(places[i].variable);
    if (!value || (!*value && i > 0)) continue;
    int length = snprintf(path, capacity, "%s%s", value, places[i].below);
    return *value && length > 0 && (size_t)length < capacity;
  }
  return false;
}

static void show_program(const char *folder, const char *name, sattn_json *json) {
  char path[4400];
  struct stat facts;
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  if (length < 0 || (size_t)length >= sizeof path || stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return;
  if (!json) {
    printf("  %10lld bytes  %s\n", (long long)facts.st_size, name);
    return;
  }
  sattn_json_open(json, NULL, '{');
  sattn_json_text(json, "file", name);
  sattn_json_integer(json, "bytes", (int64_t)facts.st_size);
  sattn_json_close(json, '}');
}

static void show_cache(sattn_json *json) {
  char folder[4096] = "";
  bool usable = cache_folder(folder, sizeof folder);
  struct dirent **entries = NULL;
  int count = usable ? scandir(folder, &entries, NULL, alphasort) : -1;
  if (json) {
    sattn_json_text(json, "cache_folder", usable ? folder : NULL);
    sattn_json_open(json, "programs", '[');
  } else {
    printf("cache: %s%s\n", usable ? folder : "switched off", usable && count < 0 ? " (nothing there yet)" : "");
  }
  for (int i = 0; i < count; i++) {
    if (entries[i]->d_name[0] != '.') show_program(folder, entries[i]->d_name, json);
    free(entries[i]);
  }
  free(entries);
  if (json) sattn_json_close(json, ']');
}

bool sattn_command_info(int argc, char **argv, sattn_report *report) {
  bool help = false, as_json = false;
  const sattn_option options[] = {{SATTN_OPTION_FLAG, "--json", NULL, &as_json, NULL, NULL, "one JSON object instead of text"},
                                  {SATTN_OPTION_END, NULL, NULL, NULL, NULL, NULL, NULL}};
  const sattn_command command = {"info [--json]", "Versions, every device of every backend with its facts, and the programs in the cache.",
                                 options};
  if (!sattn_options_read(options, argc, argv, &help, report)) return false;
  if (help) return sattn_options_print_help(&command), true;
  sattn_json json, *to = as_json ? &json : NULL;
  if (to) {
    sattn_json_begin(to, stdout);
    sattn_json_open(to, NULL, '{');
    sattn_json_text(to, "version", sattn_version_string());
    sattn_json_integer(to, "permutation_version", SATTN_PERMUTATION_VERSION);
    sattn_json_open(to, "backends", '[');
  } else {
    printf("sattn %s, permutation format %d\n", sattn_version_string(), SATTN_PERMUTATION_VERSION);
  }
  for (int b = 1; b <= SATTN_BACKEND_COUNT; b++)
    if (!show_backend((sattn_backend)b, to, report)) return false;
  if (to) sattn_json_close(to, ']');
  show_cache(to);
  if (to) sattn_json_close(to, '}');
  return true;
}
