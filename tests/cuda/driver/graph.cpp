// Graphs: what was captured, kept to be run again.
#include "state.h"

using namespace sattn_stub;

namespace {

template <class T>
T *find(std::set<T *> Context::*of, void *handle, const char *what) {
  T *x = (T *)handle;
  if ((current().*of).count(x)) return x;
  misuse(invalid_handle, "not a live %s of the current context", what);
  return nullptr;
}

CUresult instantiate(void **exec, void *graph) {
  Graph *g = find(&Context::graphs, graph, "graph");
  if (!g) return invalid_handle;
  Graph_exec *e = new Graph_exec{g->nodes, g->context};
  current().execs.insert(e);
  *exec = e;
  return success;
}

}  // namespace

STUB_API CUresult cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long) {
  STUB_ENTER(context);
  return instantiate(exec, graph);
}
STUB_API CUresult cuGraphInstantiate_v2(void **exec, void *graph, void **node, char *log, size_t bytes) {
  STUB_ENTER(context);
  if (node) *node = nullptr;
  if (log && bytes) *log = 0;
  return instantiate(exec, graph);
}
STUB_API CUresult cuGraphDestroy(void *graph) {
  STUB_RELEASE(context);
  Graph *g = find(&Context::graphs, graph, "graph");
  if (!g) return invalid_handle;
  current().graphs.erase(g);
  delete g;
  return entry.injected;
}
STUB_API CUresult cuGraphExecDestroy(void *exec) {
  STUB_RELEASE(context);
  Graph_exec *e = find(&Context::execs, exec, "executable graph");
  if (!e) return invalid_handle;
  current().execs.erase(e);
  delete e;
  return entry.injected;
}
STUB_API CUresult cuGraphGetNodes(void *graph, void **nodes, size_t *count) {
  STUB_ENTER(context);
  Graph *g = find(&Context::graphs, graph, "graph");
  if (!g) return invalid_handle;
  for (size_t k = 0; nodes && k < *count && k < g->nodes.size(); ++k) nodes[k] = &g->nodes[k];
  *count = g->nodes.size();
  return success;
}
STUB_API CUresult cuGraphUpload(void *exec, void *stream) {
  STUB_ENTER(context);
  Stream *s;
  if (!find(&Context::execs, exec, "executable graph") || !find_stream(stream, s)) return invalid_handle;
  return success;
}
STUB_API CUresult cuGraphLaunch(void *exec, void *stream) {
  STUB_ENTER(context);
  Graph_exec *e = find(&Context::execs, exec, "executable graph");
  Stream *s;
  if (!e || !find_stream(stream, s)) return invalid_handle;
  ++state.stats.graph_launches;
  // a copy: the executable graph may be destroyed while its launch is pending
  const std::vector<Operation> nodes = e->nodes;
  return enqueue(s, [nodes]() -> CUresult {
    for (const Operation &op : nodes)
      if (CUresult r = op()) return r;
    return success;
  });
}
