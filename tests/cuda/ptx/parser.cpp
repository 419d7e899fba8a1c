// PTX text to a Module: directives, variables, functions, labels, line information.
// The text is taken as nvcc writes it: statements end in ';' or a newline (.loc), and
// labels and braces stand where a statement would begin.
#include "parser.h"
#include "decoder.h"
#include "launch.h"

#include <array>
#include <cstdlib>
#include <cstring>

namespace sattn_sim {

Module::~Module() {
  for (const auto &v : variables) global_unregister(v->data);
}

namespace {

bool starts(const std::string &s, const char *with) {
  return s.compare(0, strlen(with), with) == 0;
}

std::string without_comments(const std::string &text) {
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/' && i + 1 < text.size() && text[i + 1] == '/')
      while (i < text.size() && text[i] != '\n') ++i;
    if (i < text.size()) clean += text[i];
  }
  return clean;
}

// ".align 8 .b8 name[12]" or ".u32 name": what follows a state space
struct Declaration {
  std::string name;
  size_t bytes = 0;
  unsigned alignment = 1;
};

Declaration parse_declaration(const std::string &s) {
  Declaration d;
  const size_t bracket = s.find('[');
  const std::string head = trim(s.substr(0, bracket));
  const auto words = split(head, ' ');
  size_t element = 0;
  for (size_t k = 0; k < words.size(); ++k) {
    Type t;
    if (words[k] == ".align" && k + 1 < words.size()) d.alignment = (unsigned)atoi(words[k + 1].c_str());
    if (words[k].size() > 1 && words[k][0] == '.' && parse_type(words[k].substr(1), t)) element = t.bytes();
  }
  if (!element) throw Ptx_error("a declaration without a known type: " + s);
  d.name = head.substr(head.find_last_of(" \t") + 1);
  d.alignment = std::max(d.alignment, (unsigned)element);
  d.bytes = element;
  if (bracket != std::string::npos) d.bytes *= strtoull(s.c_str() + bracket + 1, nullptr, 0);
  return d;
}

class Parser {
 public:
  explicit Parser(Module &m) : module_(m) {}

  void run(const std::string &text) {
    const std::string clean = without_comments(text);
    find_files(clean);
    for (size_t k = 0; k < clean.size(); ++k) character(clean, k);
    if (scope_) throw Ptx_error("the text ends inside a function");
    link();
  }
  int line() const { return line_; }

 private:
  Module &module_;
  std::unique_ptr<Scope> scope_;
  Function *function_ = nullptr;
  std::string statement_;
  std::map<std::string, uint32_t> labels_;
  struct Jump {
    size_t instruction;
    std::string label;
    bool table;
  };
  std::vector<Jump> jumps_;
  struct Call {
    Function *function;
    size_t instruction;
    std::string callee;
  };
  std::vector<Call> calls_;
  int depth_ = 0, line_ = 1;
  Site site_{"ptx", 0, nullptr};
  bool located_ = false;
  std::map<std::array<int, 3>, std::array<int, 3>> roots_;

  // .file directives stand at the end of the text and .loc needs them from the start.
  void find_files(const std::string &text) {
    for (size_t p = 0; (p = text.find(".file", p)) != std::string::npos; p += 5) {
      const size_t a = text.find('"', p), z = text.find('"', a + 1);
      if (z == std::string::npos) break;
      module_.names.emplace_back(new std::string(text.substr(a + 1, z - a - 1)));
      module_.files[atoi(text.c_str() + p + 5)] = module_.names.back()->c_str();
    }
  }

  void character(const std::string &text, size_t &k) {
    const char c = text[k];
    const bool blank = trim(statement_).empty();
    if (c == '\n') {
      ++line_;
      end_of_line();
    } else if (c == ';') {
      const std::string s = trim(statement_);
      statement_.clear();
      if (!s.empty()) statement(s);
    } else if (c == '{' && !scope_ && statement_.find('=') == std::string::npos) {
      open_function(text, k);
    } else if (c == '{' && scope_ && blank) {
      ++depth_;
    } else if (c == '}' && scope_ && blank) {
      if (--depth_ == 0) close_function();
    } else if (c == ':' && text[k + 1] != ':' && text[k - 1] != ':' && scope_ && is_label()) {
      labels_[trim(statement_)] = (uint32_t)function_->code.size();
      statement_.clear();
    } else {
      statement_ += c;
    }
  }

  bool is_label() const {
    const std::string s = trim(statement_);
    return !s.empty() && s.find_first_of(" \t[{%(,") == std::string::npos;
  }

  void end_of_line() {
    const std::string s = trim(statement_);
    if (starts(s, ".loc")) {
      locate(s);
    } else if (starts(s, ".version")) {
      module_.version = strtod(s.c_str() + 8, nullptr);
    } else if (starts(s, ".target")) {
      const size_t sm = s.find("sm_");
      if (sm == std::string::npos) throw Ptx_error("unknown target: " + s);
      module_.target = (unsigned)atoi(s.c_str() + sm + 3);
    } else if (starts(s, ".address_size")) {
      if (trim(s.substr(13)) != "64") throw Ptx_error("only 64-bit addresses: " + s);
    } else if (!starts(s, ".file")) {
      statement_ += ' ';
      return;
    }
    statement_.clear();
  }

  // Code inlined from gpu.h or from CUDA's headers is put down to the line that asked
  // for it: nvcc writes the call's own .loc before that of what was inlined there.
  bool is_vocabulary(int file) const {
    const auto it = module_.files.find(file);
    if (it == module_.files.end()) return true;
    const std::string name = it->second;
    return name.find("/include/") != std::string::npos || (name.size() >= 6 && name.compare(name.size() - 6, 6, "/gpu.h") == 0);
  }

  void locate(const std::string &s) {
    int at[3] = {}, call[3] = {};
    sscanf(s.c_str(), ".loc %d %d %d", &at[0], &at[1], &at[2]);
    std::array<int, 3> root = {at[0], at[1], at[2]};
    const size_t inlined = s.find("inlined_at");
    if (inlined != std::string::npos && is_vocabulary(at[0]) &&
        sscanf(s.c_str() + inlined + 10, "%d %d %d", &call[0], &call[1], &call[2]) == 3) {
      const auto known = roots_.find({call[0], call[1], call[2]});
      root = known != roots_.end() ? known->second : std::array<int, 3>{call[0], call[1], call[2]};
    }
    roots_[{at[0], at[1], at[2]}] = root;
    const auto file = module_.files.find(root[0]);
    if (file == module_.files.end()) return;
    site_ = {file->second, root[1], nullptr};
    located_ = true;
  }

  // ---- functions

  void open_function(const std::string &text, size_t &k) {
    const std::string header = trim(statement_);
    statement_.clear();
    if (header.find(".section") != std::string::npos) {  // debugging sections of -lineinfo
      while (k < text.size() && text[k] != '}') line_ += text[k++] == '\n';
      return;
    }
    const bool entry = header.find(".entry") != std::string::npos;
    size_t p = header.find(entry ? ".entry" : ".func");
    if (p == std::string::npos) throw Ptx_error("unknown directive: " + header.substr(0, 80));
    p += entry ? 6 : 5;
    std::string rest = trim(header.substr(p)), results;
    if (rest[0] == '(') {
      const size_t close = rest.find(')');
      results = rest.substr(1, close - 1);
      rest = trim(rest.substr(close + 1));
    }
    const size_t open = rest.find('('), close = rest.rfind(')');
    const std::string name = trim(rest.substr(0, open));
    const std::string parameters = open == std::string::npos ? "" : rest.substr(open + 1, close - open - 1);
    const std::string tail = open == std::string::npos ? "" : rest.substr(close + 1);
    begin(name, entry);
    declare_parameters(results, function_->results);
    declare_parameters(parameters, function_->parameters);
    launch_bounds(tail);
  }

  void begin(const std::string &name, bool entry) {
    auto &f = module_.functions[name];
    f.reset(new Function);
    function_ = f.get();
    function_->name = name;
    function_->entry = entry;
    function_->slots = first_register_slot;
    scope_.reset(new Scope{module_, *function_, {}, {}, {}, {}, {}, {}});
    labels_.clear();
    jumps_.clear();
    depth_ = 1;
    located_ = false;
  }

  void launch_bounds(const std::string &tail) {
    for (std::string s = trim(tail); !s.empty();) {
      unsigned x = 1, y = 1, z = 1;
      if (starts(s, ".maxntid") && sscanf(s.c_str(), ".maxntid %u , %u , %u", &x, &y, &z) >= 1)
        function_->max_threads = x * y * z;
      else if (!starts(s, ".minnctapersm") && !starts(s, ".noreturn"))
        throw Ptx_error("unknown directive: " + s);
      const size_t next = s.find('.', 1);
      s = next == std::string::npos ? "" : s.substr(next);
    }
  }

  uint32_t place_parameter(const Declaration &d) {
    uint32_t &top = function_->parameter_bytes;
    top = (top + d.alignment - 1) / d.alignment * d.alignment;
    const uint32_t offset = top;
    top += (uint32_t)d.bytes;
    scope_->parameters[d.name] = Parameter{d.name, offset, (uint32_t)d.bytes, d.alignment};
    return offset;
  }

  void declare_parameters(const std::string &list, std::vector<Parameter> &into) {
    for (const auto &x : split(list, ',')) {
      if (trim(x).empty()) continue;
      if (trim(x).compare(0, 6, ".param")) throw Ptx_error("parameter outside .param space: " + x);
      place_parameter(parse_declaration(x));
      into.push_back(scope_->parameters[parse_declaration(x).name]);
    }
  }

  void close_function() {
    Instruction end;
    end.site = site_;
    decode(*scope_, end, "ret");
    function_->code.push_back(end);
    auto target = [&](const std::string &label) {
      const auto it = labels_.find(label);
      if (it == labels_.end()) throw Ptx_error("no label " + label);
      return it->second;
    };
    for (const Jump &j : jumps_) {
      Instruction &i = function_->code[j.instruction];
      if (!j.table) {
        i.target = target(j.label);
        continue;
      }
      const auto table = scope_->branch_tables.find(j.label);
      if (table == scope_->branch_tables.end()) throw Ptx_error("no branch table " + j.label);
      for (const auto &l : table->second) i.targets.push_back(target(l));
    }
    scope_.reset();
  }

  void link() {
    for (const Call &c : calls_) {
      const auto f = module_.functions.find(c.callee);
      Instruction &i = c.function->code[c.instruction];
      if (f != module_.functions.end())
        i.callee = f->second.get();
      else if (c.callee != "__assertfail")
        throw Ptx_error("call of " + c.callee + ", which is not in the module");
    }
    for (auto &f : module_.functions)
      for (Instruction &i : f.second->code) i.site.pc = &i;
  }

  // ---- statements

  void statement(const std::string &s) {
    if (s[0] == '.') {
      directive(s);
      return;
    }
    if (!scope_) throw Ptx_error("outside a function: " + s);
    Instruction i;
    i.site = located_ ? site_ : Site{"ptx", line_, nullptr};
    decode(*scope_, i, s);
    if (i.flow == Flow::branch || i.flow == Flow::indirect_branch)
      jumps_.push_back({function_->code.size(), s.substr(s.find_last_of(" \t,") + 1), i.flow == Flow::indirect_branch});
    if (i.flow == Flow::call) calls_.push_back({function_, function_->code.size(), i.name});
    function_->code.push_back(std::move(i));
  }

  void directive(const std::string &s) {
    if (starts(s, ".reg"))
      registers(s);
    else if (starts(s, ".branchtargets"))
      branch_table(s);
    else if (scope_ && starts(s, ".local"))
      local_variable(s);
    else if (scope_ && starts(s, ".param"))
      place_parameter(parse_declaration(s));
    else if (s.find(".shared") != std::string::npos)
      shared_variable(s);
    else if (s.find(".global") != std::string::npos || s.find(".const") != std::string::npos)
      module_variable(s);
    else if (!starts(s, ".pragma") && !declaration_of_function(s))
      throw Ptx_error("unknown directive: " + s);
  }

  static bool declaration_of_function(const std::string &s) { return s.find(".func") != std::string::npos; }

  void branch_table(const std::string &s) {
    std::string name;
    for (const auto &l : labels_)
      if (l.second == function_->code.size()) name = l.first;
    if (name.empty()) throw Ptx_error("a branch table without a name: " + s);
    std::vector<std::string> targets;
    for (const auto &t : split(s.substr(14), ',')) targets.push_back(trim(t));
    // several labels may mark this place; any of them names the table
    for (const auto &l : labels_)
      if (l.second == function_->code.size()) scope_->branch_tables[l.first] = targets;
  }

  void registers(const std::string &s) {
    const size_t percent = s.find('%');
    if (percent == std::string::npos) return;  // temp_param_reg of a call sequence: never used
    Type t;
    const auto words = split(trim(s.substr(4, percent - 4)), ' ');
    if (!parse_type(trim(words[0]).substr(1), t)) throw Ptx_error("registers of an unknown type: " + s);
    for (const auto &x : split(s.substr(percent), ',')) {
      std::string name = trim(x);
      int count = -1;
      const size_t angle = name.find('<');
      if (angle != std::string::npos) {
        count = atoi(name.c_str() + angle + 1);
        name = name.substr(0, angle);
      }
      for (int k = 0; k < std::max(count, 1); ++k) {
        scope_->registers[count < 0 ? name : name + std::to_string(k)] = Register{function_->slots, t.bits};
        function_->slots += t.bits == 64 ? 2 : 1;
      }
    }
  }

  void local_variable(const std::string &s) {
    const Declaration d = parse_declaration(s.substr(6));
    uint32_t &top = function_->local_bytes;
    top = (top + d.alignment - 1) / d.alignment * d.alignment;
    scope_->locals[d.name] = top;
    top += (uint32_t)d.bytes;
  }

  void shared_variable(const std::string &s) {
    const bool dynamic = s.find(".extern") != std::string::npos;
    const std::string rest = s.substr(s.find(".shared") + 7);
    Declaration d;
    if (dynamic && rest.find("[]") != std::string::npos) {
      d = parse_declaration(rest.substr(0, rest.find('[')));
      d.bytes = 0;
    } else {
      d = parse_declaration(rest);
    }
    uint32_t &slots = module_.block_slots;
    module_.shared.push_back({d.name, d.bytes, d.alignment, dynamic, slots});
    slots += 3;
  }

  void module_variable(const std::string &s) {
    if (s.find(".extern") != std::string::npos) throw Ptx_error("variable of another module: " + s);
    const bool constant = s.find(".const") != std::string::npos;
    const std::string rest = s.substr(s.find(constant ? ".const" : ".global") + (constant ? 6 : 7));
    const size_t equals = rest.find('=');
    const Declaration d = parse_declaration(trim(rest.substr(0, equals)));
    std::unique_ptr<Module_variable> v(new Module_variable);
    v->name = d.name;
    v->bytes = d.bytes;
    v->constant = constant;
    v->storage.reset(new unsigned char[d.bytes + d.alignment]());
    v->data = v->storage.get() + (d.alignment - (uintptr_t)v->storage.get() % d.alignment) % d.alignment;
    if (equals != std::string::npos) initialise(*v, rest.substr(equals + 1), rest);
    global_register(v->data, v->bytes, -1);
    module_.variables.push_back(std::move(v));
  }

  void initialise(Module_variable &v, const std::string &values, const std::string &text) {
    Type t;
    for (const auto &w : split(text.substr(0, text.find('=')), ' '))
      if (w.size() > 1 && w[0] == '.' && parse_type(w.substr(1), t)) break;
    std::string list = trim(values);
    if (list.front() == '{') list = list.substr(1, list.size() - 2);
    size_t at = 0;
    for (const auto &x : split(list, ',')) {
      uint64_t number;
      if (!parse_number(trim(x), t.bits, number)) throw Ptx_error("initial value of " + v.name + ": " + x);
      if (at + t.bytes() > v.bytes) throw Ptx_error("too many initial values: " + v.name);
      memcpy(v.data + at, &number, t.bytes());
      at += t.bytes();
    }
  }
};

}  // namespace

std::unique_ptr<Module> parse_module(const std::string &text) {
  std::unique_ptr<Module> m(new Module);
  Parser p(*m);
  try {
    p.run(text);
  } catch (const Ptx_error &e) {
    throw Ptx_error("PTX line " + std::to_string(p.line()) + ": " + e.what());
  }
  if (!m->target) throw Ptx_error("not PTX: no .target");
  return m;
}

}  // namespace sattn_sim
