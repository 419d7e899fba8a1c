/* JSON on a stream: commas, indentation and escapes are its business. Numbers that are not finite become null. */
#ifndef SATTN_TOOL_JSON_H
#define SATTN_TOOL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct sattn_json {
  FILE *stream;
  int depth;
  bool has_entry[16]; /* of the open object or array at each depth */
} sattn_json;

void sattn_json_begin(sattn_json *json, FILE *stream);

/* `key` is NULL inside an array and at the top. */
void sattn_json_open(sattn_json *json, const char *key, char bracket);     /* '{' or '[' */
void sattn_json_close(sattn_json *json, char bracket);                     /* '}' or ']' */
void sattn_json_text(sattn_json *json, const char *key, const char *text); /* NULL: null */
void sattn_json_integer(sattn_json *json, const char *key, int64_t value);
void sattn_json_unsigned(sattn_json *json, const char *key, uint64_t value);
void sattn_json_real(sattn_json *json, const char *key, double value);
void sattn_json_bool(sattn_json *json, const char *key, bool value);
void sattn_json_null(sattn_json *json, const char *key);

#endif
