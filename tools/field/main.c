/* A program of the two subcommands alone, for trying and testing them without the rest of the tool. */
#include "field.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  if (argc >= 2 && strcmp(argv[1], "field") == 0) {
    return sattn_tool_field(argc - 1, argv + 1);
  }
  if (argc >= 2 && strcmp(argv[1], "picture") == 0) {
    return sattn_tool_picture(argc - 1, argv + 1);
  }
  fputs("usage: sattn-field-standalone field|picture [OPTIONS]\n", stderr);
  return 2;
}
