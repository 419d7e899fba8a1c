/* The two subcommands of `sattn` that show the theory instead of computing attention.
 *
 *   sattn field     receptive fields, pair probabilities, small-world figures, mixing, approximation
 *   sattn picture   who sees whom, as an image
 *
 * Both take the arguments after the program's name (argv[0] is the subcommand) and return the exit status of
 * the tool: 0 done, 1 refused or failed, 2 wrong usage. */
#ifndef SATTN_TOOLS_FIELD_FIELD_H
#define SATTN_TOOLS_FIELD_FIELD_H

int sattn_tool_field(int argc, char **argv);
int sattn_tool_picture(int argc, char **argv);

#endif
