#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool takes_value(const sattn_option *option) {
  return option->kind != SATTN_OPTION_FLAG && option->kind != SATTN_OPTION_CLEAR;
}

/* strtoull and friends accept leading blanks and signs where no number should have them. */
static bool starts_number(const char *text, bool sign_allowed) {
  if (sign_allowed && (*text == '-' || *text == '+')) text++;
  return isdigit((unsigned char)*text) || *text == '.';
}

static bool read_int64(const sattn_option *option, const char *text, int64_t *out_value, sattn_report *report) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (!starts_number(text, true) || end == text || *end)
    return sattn_tool_misuse(report, "%s %s: a whole number is needed", option->name, text);
  if (errno == ERANGE) return sattn_tool_misuse(report, "%s %s: does not fit 64 bits", option->name, text);
  *out_value = value;
  return true;
}

static bool read_unsigned(const sattn_option *option, const char *text, uint64_t largest, uint64_t *out_value, sattn_report *report) {
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (!starts_number(text, false) || end == text || *end || errno == ERANGE || value > largest)
    return sattn_tool_misuse(report, "%s %s: a whole number from 0 to %llu is needed", option->name, text, (unsigned long long)largest);
  *out_value = value;
  return true;
}

static bool read_real(const sattn_option *option, const char *text, double *out_value, sattn_report *report) {
  char *end = NULL;
  double value = strtod(text, &end);
  if (end == text || *end || isspace((unsigned char)*text))
    return sattn_tool_misuse(report, "%s %s: a number is needed", option->name, text);
  *out_value = value;
  return true;
}

static bool read_choice(const sattn_option *option, const char *text, size_t length, int *out_value, sattn_report *report) {
  char all[256] = "";
  for (int i = 0; option->choices[i]; i++) {
    if (strlen(option->choices[i]) == length && strncmp(option->choices[i], text, length) == 0) {
      *out_value = i;
      return true;
    }
    size_t used = strlen(all);
    snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", option->choices[i]);
  }
  return sattn_tool_misuse(report, "%s %.*s: must be one of %s", option->name, (int)length, text, all);
}

static bool append_item(const sattn_option *option, const char *item, size_t length, sattn_report *report) {
  if (option->kind == SATTN_OPTION_CHOICE_LIST) {
    sattn_choice_list *list = option->value;
    int choice = 0;
    if (list->count == SATTN_LIST_CAPACITY) return sattn_tool_misuse(report, "%s: at most %d entries", option->name, SATTN_LIST_CAPACITY);
    if (!read_choice(option, item, length, &choice, report)) return false;
    for (int i = 0; i < list->count; i++)
      if (list->values[i] == choice) return sattn_tool_misuse(report, "%s: %s stands there twice", option->name, option->choices[choice]);
    list->values[list->count++] = choice;
    return true;
  }
  sattn_int64_list *list = option->value;
  char text[32];
  if (list->count == SATTN_LIST_CAPACITY) return sattn_tool_misuse(report, "%s: at most %d entries", option->name, SATTN_LIST_CAPACITY);
  if (length >= sizeof text) return sattn_tool_misuse(report, "%s: an entry is too long", option->name);
  memcpy(text, item, length);
  text[length] = '\0';
  return read_int64(option, text, &list->values[list->count], report) && ++list->count > 0;
}

static bool read_list(const sattn_option *option, const char *text, sattn_report *report) {
  if (option->kind == SATTN_OPTION_CHOICE_LIST)
    ((sattn_choice_list *)option->value)->count = 0;
  else
    ((sattn_int64_list *)option->value)->count = 0;
  for (;;) {
    size_t length = strcspn(text, ",");
    if (!append_item(option, text, length, report)) return false;
    if (!text[length]) return true;
    text += length + 1;
  }
}

static bool read_value(const sattn_option *option, const char *text, sattn_report *report) {
  uint64_t number = 0;
  switch (option->kind) {
    case SATTN_OPTION_FLAG:
      *(bool *)option->value = true;
      return true;
    case SATTN_OPTION_CLEAR:
      *(bool *)option->value = false;
      return true;
    case SATTN_OPTION_TEXT:
      if (!*text) return sattn_tool_misuse(report, "%s: the value is empty", option->name);
      *(const char **)option->value = text;
      return true;
    case SATTN_OPTION_SIDE:
      if (strcmp(text, "unbounded") == 0) {
        *(int64_t *)option->value = SATTN_UNBOUNDED;
        return true;
      }
      return read_int64(option, text, option->value, report);
    case SATTN_OPTION_INT64:
      return read_int64(option, text, option->value, report);
    case SATTN_OPTION_UINT64:
      return read_unsigned(option, text, UINT64_MAX, option->value, report);
    case SATTN_OPTION_UINT32:
      if (!read_unsigned(option, text, UINT32_MAX, &number, report)) return false;
      *(uint32_t *)option->value = (uint32_t)number;
      return true;
    case SATTN_OPTION_REAL:
      return read_real(option, text, option->value, report);
    case SATTN_OPTION_CHOICE:
      return read_choice(option, text, strlen(text), option->value, report);
    case SATTN_OPTION_INT64_LIST:
    case SATTN_OPTION_CHOICE_LIST:
      return read_list(option, text, report);
    default:
      return sattn_tool_misuse(report, "%s: unknown kind of option", option->name);
  }
}

static const sattn_option *find(const sattn_option *options, const char *word, size_t length) {
  for (const sattn_option *o = options; o->kind != SATTN_OPTION_END; o++)
    if (o->name && strlen(o->name) == length && strncmp(o->name, word, length) == 0) return o;
  return NULL;
}

static bool seen_before(const sattn_option *option, int argc, char **argv) {
  size_t length = strlen(option->name);
  for (int i = 0; i < argc; i++)
    if (strncmp(argv[i], option->name, length) == 0 && (argv[i][length] == '\0' || argv[i][length] == '=')) return true;
  return false;
}

bool sattn_options_read(const sattn_option *options, int argc, char **argv, bool *out_help, sattn_report *report) {
  *out_help = false;
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
      *out_help = true;
      return true;
    }
    int at = i;
    size_t length = strcspn(word, "=");
    const sattn_option *option = find(options, word, length);
    if (!option)
      return sattn_tool_misuse(report, "%s: unknown %s; --help shows what there is", word, word[0] == '-' ? "option" : "argument");
    if (seen_before(option, at, argv)) return sattn_tool_misuse(report, "%s: given twice", option->name);
    const char *value = word[length] ? word + length + 1 : NULL;
    if (takes_value(option)) {
      if (!value && i + 1 == argc) return sattn_tool_misuse(report, "%s: needs a value (%s)", option->name, option->argument);
      if (!value) value = argv[++i];
    } else if (value) {
      return sattn_tool_misuse(report, "%s: takes no value", option->name);
    }
    if (!read_value(option, value, report)) return false;
    if (option->given) *option->given = true;
  }
  return true;
}

static void print_wrapped(const char *text, int indent) {
  int column = indent;
  while (*text) {
    int word = (int)strcspn(text, " ");
    if (column > indent && column + 1 + word > 100) {
      printf("\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      putchar(' ');
      column++;
    }
    printf("%.*s", word, text);
    column += word;
    text += word;
    while (*text == ' ') text++;
  }
  putchar('\n');
}

void sattn_options_print_help(const sattn_command *command) {
  enum { HELP_COLUMN = 34 };
  printf("usage: sattn %s\n\n", command->usage);
  print_wrapped(command->summary, 0);
  putchar('\n');
  for (const sattn_option *o = command->options; o->kind != SATTN_OPTION_END; o++) {
    if (o->kind == SATTN_OPTION_HEADING) {
      printf("\n%s\n", o->help);
      continue;
    }
    int used = printf("  %s%s%s", o->name, takes_value(o) ? " " : "", takes_value(o) ? o->argument : "");
    printf("%*s", used < HELP_COLUMN ? HELP_COLUMN - used : 1, "");
    print_wrapped(o->help, HELP_COLUMN);
  }
}
