#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_string(FILE *stream, const char *text) {
  fputc('"', stream);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c == '"' || *c == '\\')
      fprintf(stream, "\\%c", *c);
    else if (*c < 0x20)
      fprintf(stream, "\\u%04x", *c);
    else
      fputc(*c, stream);
  }
  fputc('"', stream);
}

static void begin_entry(sattn_json *json, const char *key) {
  if (json->depth > 0) {
    fprintf(json->stream, "%s\n%*s", json->has_entry[json->depth] ? "," : "", 2 * json->depth, "");
    json->has_entry[json->depth] = true;
  }
  if (!key) return;
  put_string(json->stream, key);
  fputs(": ", json->stream);
}

void sattn_json_begin(sattn_json *json, FILE *stream) {
  memset(json, 0, sizeof *json);
  json->stream = stream;
}

void sattn_json_open(sattn_json *json, const char *key, char bracket) {
  begin_entry(json, key);
  fputc(bracket, json->stream);
  json->has_entry[++json->depth] = false;
}

void sattn_json_close(sattn_json *json, char bracket) {
  bool filled = json->has_entry[json->depth--];
  if (filled) fprintf(json->stream, "\n%*s", 2 * json->depth, "");
  fputc(bracket, json->stream);
  if (json->depth == 0) fputc('\n', json->stream);
}

void sattn_json_text(sattn_json *json, const char *key, const char *text) {
  if (!text) {
    sattn_json_null(json, key);
    return;
  }
  begin_entry(json, key);
  put_string(json->stream, text);
}

void sattn_json_integer(sattn_json *json, const char *key, int64_t value) {
  begin_entry(json, key);
  fprintf(json->stream, "%" PRId64, value);
}

void sattn_json_unsigned(sattn_json *json, const char *key, uint64_t value) {
  begin_entry(json, key);
  fprintf(json->stream, "%" PRIu64, value);
}

void sattn_json_real(sattn_json *json, const char *key, double value) {
  if (!isfinite(value)) {
    sattn_json_null(json, key);
    return;
  }
  begin_entry(json, key);
  fprintf(json->stream, "%.9g", value);
}

void sattn_json_bool(sattn_json *json, const char *key, bool value) {
  begin_entry(json, key);
  fputs(value ? "true" : "false", json->stream);
}

void sattn_json_null(sattn_json *json, const char *key) {
  begin_entry(json, key);
  fputs("null", json->stream);
}
