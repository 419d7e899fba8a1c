/* Wall time, and a progress line on standard error when that is a terminal. */
#ifndef SATTN_TOOL_CLOCK_H
#define SATTN_TOOL_CLOCK_H

double sattn_clock_seconds(void);

/* Shows `done` of `total` and what is going on; a call with done == total wipes the line. Nothing where standard error is no terminal. */
void sattn_progress(int done, int total, const char *what);

#endif
