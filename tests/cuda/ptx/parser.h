#ifndef SATTN_SIM_PTX_PARSER_H
#define SATTN_SIM_PTX_PARSER_H

#include "program.h"

namespace sattn_sim {

// Throws Ptx_error.
std::unique_ptr<Module> parse_module(const std::string &text);

}  // namespace sattn_sim
#endif
