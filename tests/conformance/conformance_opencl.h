#ifndef CONFORMANCE_OPENCL_H
#define CONFORMANCE_OPENCL_H

#include "conformance.h"

void cases_opencl_queues(test_suite *suite);
void cases_opencl_processes(test_suite *suite);

extern const test_child opencl_children[];

#endif
