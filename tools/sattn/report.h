/* How the tool's functions fail: a sentence and an exit status, kept until main prints them once as `sattn: sentence`. */
#ifndef SATTN_TOOL_REPORT_H
#define SATTN_TOOL_REPORT_H

#include <sattn/sattn.h>
#include <stdbool.h>

/* Exit statuses (also of the process). */
enum { SATTN_EXIT_DONE = 0, SATTN_EXIT_REFUSED = 1, SATTN_EXIT_USAGE = 2 };

typedef struct sattn_report {
  int exit_status;
  char message[1400];
} sattn_report;

#if defined(__GNUC__)
#define SATTN_TOOL_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define SATTN_TOOL_PRINTF(format_index, first)
#endif

/* Both keep the sentence and return false, so that a refusal is one line: return sattn_tool_refuse(report, ...). */
bool sattn_tool_refuse(sattn_report *report, const char *format, ...) SATTN_TOOL_PRINTF(2, 3);
bool sattn_tool_misuse(sattn_report *report, const char *format, ...) SATTN_TOOL_PRINTF(2, 3);

/* Takes over a refusal of the library; true when status is SATTN_OK. */
bool sattn_tool_check(sattn_report *report, sattn_status status, const sattn_error *error);

/* calloc that reports: zeroed memory for count * size bytes (never NULL for zero bytes), or NULL and a refusal naming `what`. */
void *sattn_tool_allocate(sattn_report *report, const char *what, uint64_t count, size_t size);

#endif
