"""Contexts, plans, permutations and buffers, and one forward or backward call on memory given by address.

Knows neither NumPy nor PyTorch. Everything kept between calls lies in caches that several threads may use.
"""

import collections
import ctypes
import os
import sys
import threading
import weakref

from . import _library as c
from ._problem import permutation_count


class Memory:
    """Where an array lies: address, shape, element strides (None for a flat array) and bytes of an element."""

    __slots__ = ("address", "shape", "strides", "itemsize")

    def __init__(self, address, shape, strides, itemsize):
        self.address, self.shape, self.strides, self.itemsize = address, shape, strides, itemsize

    def bytes(self):
        """From the first to behind the last element; 0 if there is none."""
        if 0 in self.shape:
            return 0
        if self.strides is None:
            count = 1
            for size in self.shape:
                count *= size
            return count * self.itemsize
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        return (last + 1) * self.itemsize


# ---- contexts ----


class Context:
    """A device made ready; lives as long as the process, as do the driver's threads."""

    def __init__(self, handle, cuda_device=None):
        self.handle = handle
        self.cuda_device = cuda_device
        info = c.library().sattn_context_device(handle).contents
        self.device = info.id.decode()
        self.shares_host_memory = bool(info.shares_host_memory)


_contexts = {}
_context_lock = threading.Lock()


def _default_host_device():
    """For memory of the host: SATTN_DEVICE, else a device that works in place, else the reference."""
    if os.environ.get("SATTN_DEVICE"):
        return None
    count = ctypes.c_uint32()
    c.call("sattn_device_count", 2, ctypes.byref(count))
    for index in range(count.value):
        info = c.DeviceInfo()
        info.struct_size = ctypes.sizeof(info)
        c.call("sattn_device_get_info", 2, index, ctypes.byref(info))
        if info.shares_host_memory:
            return info.id
    return b"reference"


def host_context(backend=None):
    """The context for arrays in host memory. `backend`: a backend's name or a device id such as "opencl:0"; None: the best that works in place."""
    key = ("host", backend)
    context = _contexts.get(key)
    if context is None:
        with _context_lock:
            context = _contexts.get(key)
            if context is None:
                name = backend.encode() if backend else _default_host_device()
                handle = ctypes.c_void_p()
                c.call("sattn_context_create", name, None, ctypes.byref(handle))
                context = Context(handle)
                # The default, a backend and a device id may name the same device: one context for all.
                same = next((each for each in _contexts.values() if each.device == context.device and each.cuda_device is None), None)
                if same is not None:
                    c.library().sattn_context_destroy(ctypes.byref(handle))
                context = _contexts[key] = same or context
    return context


def cuda_context(device_index, current_context):
    """The context on the caller's CUcontext of a GPU. `current_context` returns its address."""
    key = ("cuda", device_index)
    context = _contexts.get(key)
    if context is None:
        with _context_lock:
            context = _contexts.get(key)
            if context is None:
                handle = ctypes.c_void_p()
                c.call("sattn_context_create_cuda", current_context(), None, ctypes.byref(handle))
                context = _contexts[key] = Context(handle, device_index)
    return context


# ---- caches ----


class LeastRecentlyUsed:
    """Keeps what was used last, up to a total weight. Making an entry holds the lock, so two threads never make the same one."""

    def __init__(self, most):
        self.most = most
        self.weight = 0
        self.entries = collections.OrderedDict()
        self.lock = threading.RLock()
        self.made = 0

    def get(self, key, make, weight=1):
        with self.lock:
            entry = self.entries.get(key)
            if entry is not None:
                self.entries.move_to_end(key)
                return entry[0]
            value = make()
            self.made += 1
            self.entries[key] = (value, weight)
            self.weight += weight
            while self.weight > self.most and len(self.entries) > 1:
                _, (_, gone) = self.entries.popitem(last=False)
                self.weight -= gone
            return value

    def clear(self):
        with self.lock:
            self.entries.clear()
            self.weight = 0


plans = LeastRecentlyUsed(256)
permutations = LeastRecentlyUsed(256 << 20)  # bytes


class _Handle:
    """Owns a C object; whoever uses it holds the Python object, so an entry that leaves its cache ends after its last call."""

    def __init__(self, context, destroy, handle):
        self.context, self.handle = context, handle
        self._end = weakref.finalize(self, _destroy, context, destroy, handle)
        # The driver is going down by then.
        self._end.atexit = False


def _destroy(context, destroy, handle):
    if sys.is_finalizing():
        return
    if context.cuda_device is not None:
        # Calls on a stream return before they are complete, and may still be using it.
        sys.modules["torch"].cuda.synchronize(context.cuda_device)
    getattr(c.library(), destroy)(ctypes.byref(handle))


class Plan(_Handle):
    def __init__(self, context, attention, maxima, passes):
        handle = ctypes.c_void_p()
        c.call("sattn_plan_create", context.handle, ctypes.byref(attention), ctypes.byref(maxima), passes, ctypes.byref(handle))
        super().__init__(context, "sattn_plan_destroy", handle)
        self.workspace = {each: c.library().sattn_plan_workspace(handle, each) if passes & each else 0 for each in (1, 2)}
        self._free = []
        self._lock = threading.Lock()

    def info(self):
        info = c.PlanInfo()
        info.struct_size = ctypes.sizeof(info)
        c.call("sattn_plan_get_info", self.handle, ctypes.byref(info))
        return info

    def borrow_workspace(self):
        """A workspace for one call that waits for its end; give it back by return_workspace."""
        size = max(self.workspace.values())
        if size == 0:
            return None
        with self._lock:
            if self._free:
                return self._free.pop()
        handle = ctypes.c_void_p()
        c.call("sattn_buffer_create", self.context.handle, size, ctypes.byref(handle))
        return _Handle(self.context, "sattn_buffer_destroy", handle)

    def return_workspace(self, workspace):
        if workspace is not None:
            with self._lock:
                self._free.append(workspace)


def _round_up(number):
    """To a power of two, so that a growing cache needs few plans."""
    return 1 << (number - 1).bit_length() if number > 1 else number


def plan_for(context, attention, batch, queries, keys, passes):
    # Rounded, but never beyond what the library takes, so that what it refuses is the call's own.
    up_keys = max(keys, min(_round_up(keys), attention.order_length or 2**31 - 1))
    maxima = (_round_up(batch), max(queries, min(_round_up(queries), up_keys)), up_keys)
    key = (context, bytes(attention), maxima, passes)
    try:
        return plans.get(key, lambda: Plan(context, attention, c.Sizes(*maxima), passes))
    except c.OutOfMemory:
        # The rounding may have gone beyond what the device allows.
        exact = (batch, queries, keys)
        return plans.get((*key[:2], exact, passes), lambda: Plan(context, attention, c.Sizes(*exact), passes))


class DevicePermutation(_Handle):
    def __init__(self, context, options):
        handle = ctypes.c_void_p()
        c.call("sattn_permutation_create", context.handle, ctypes.byref(options), ctypes.byref(handle))
        super().__init__(context, "sattn_permutation_destroy", handle)


class Draw:
    """Which permutation a call uses: a key, or orders (bytes of uint32 [count, length])."""

    __slots__ = ("seed", "layer", "step", "substream", "order", "length")

    def __init__(self, seed=0, layer=0, step=0, substream=0, order=None, length=0):
        self.seed, self.layer, self.step, self.substream = seed & (2**64 - 1), layer & 0xFFFFFFFF, step & 0xFFFFFFFF, substream & 0xFFFFFFFF
        self.order, self.length = order, length

    def c_key(self):
        return c.PermutationKey(self.seed, self.layer, self.substream, self.step)


def permutation_for(context, draw, length, sharing, batch, kv_heads):
    batch = batch if "batch" in sharing else 1
    kv_heads = kv_heads if "head" in sharing else 1
    key = (context, length, sharing, batch, kv_heads)
    count = permutation_count(sharing, batch, kv_heads)
    if draw.order is not None:
        if draw.length != length or len(draw.order) != 4 * length * count:
            raise c.refuse(
                "permutation",
                f"permutation holds {len(draw.order) // 4} numbers for orders of {draw.length} tokens: "
                f"this call needs {count} order(s) of {length} tokens",
            )
        key += (draw.order,)
    else:
        key += (draw.seed, draw.layer, draw.step, draw.substream)

    def make():
        options = c.PermutationOptions()
        c.library().sattn_permutation_options_init(ctypes.byref(options))
        options.length, options.sharing, options.batch, options.kv_heads = length, c.SHARINGS[sharing], batch, kv_heads
        options.key = draw.c_key()
        if draw.order is not None:
            options.order = ctypes.cast(ctypes.c_char_p(draw.order), ctypes.c_void_p)
        return DevicePermutation(context, options)

    return permutations.get(key, make, 16 * max(1, length) * count)


def draw_order(length, draw):
    """The order as bytes of uint32, drawn on the host; needs no device."""
    order = (ctypes.c_uint32 * max(1, length))()
    key = draw.c_key()
    c.call("sattn_permutation_draw", length, ctypes.byref(key), order, None)
    return bytes(order)[: 4 * length]


# ---- placing memory on the device ----


class Placement:
    """Gives arrays a place on a device: host memory in place where the device shares it, else copies; CUDA memory by pointer.

    Arrays whose bytes overlap (slices of one packed buffer) become one buffer, since drivers need not support two over the same memory.
    """

    def __init__(self, context, inputs, outputs):
        self.context = context
        self.buffers = []
        self.returns = []
        self.places = {}
        try:
            self._place({name: m for name, m in inputs.items() if m is not None}, True)
            self._place({name: m for name, m in outputs.items() if m is not None}, False)
        except BaseException:
            self.release()
            raise

    def _place(self, memories, are_inputs):
        spans = sorted((m.address, m.address + m.bytes(), name, m) for name, m in memories.items() if m.bytes() > 0)
        start = 0
        while start < len(spans):
            low, high, end = spans[start][0], spans[start][1], start + 1
            while end < len(spans) and spans[end][0] < high:
                high = max(high, spans[end][1])
                end += 1
            # Offsets count elements, of 4 bytes at most.
            low -= low % 4
            buffer = self._wrap(low, high - low, are_inputs)
            for address, _, name, memory in spans[start:end]:
                self.places[name] = (buffer, (address - low) // memory.itemsize, memory.strides)
            start = end

    def _wrap(self, address, size, is_input):
        handle = ctypes.c_void_p()
        self.buffers.append(handle)  # before anything can fail, so that it is given back
        where = self.context
        if where.cuda_device is not None:
            c.call("sattn_buffer_wrap_cuda", where.handle, address, size, ctypes.byref(handle))
        elif where.shares_host_memory:
            c.call("sattn_buffer_wrap_host", where.handle, address, size, ctypes.byref(handle))
        else:
            c.call("sattn_buffer_create", where.handle, size, ctypes.byref(handle))
            if is_input:
                c.call("sattn_buffer_write", handle, 0, address, size)
            else:
                self.returns.append((handle, address, size))
        return handle

    def tensor(self, name):
        place = self.places.get(name)
        return c.Tensor(place[0], place[1], *place[2][:3]) if place else c.Tensor()

    def array(self, name):
        place = self.places.get(name)
        return c.Array(place[0], place[1]) if place else c.Array()

    def receive(self):
        for handle, address, size in self.returns:
            c.call("sattn_buffer_read", handle, 0, address, size)

    def release(self):
        for handle in self.buffers:
            c.library().sattn_buffer_destroy(ctypes.byref(handle))
        self.buffers = []


# ---- calls ----

_TENSORS = {
    "forward": ("query", "key", "value", "gate_sa", "gate_swa", "out"),
    "backward": (
        ("query", "key", "value", "gate_sa", "gate_swa", "grad_out")
        + ("grad_query", "grad_key", "grad_value", "grad_gate_sa", "grad_gate_swa")
    ),
}
_ARRAYS = {
    "forward": ("lengths", "query_start", "sink_logits", "lse", "lse_sa", "lse_swa"),
    "backward": ("lengths", "query_start", "sink_logits", "grad_lse", "grad_lse_sa", "grad_lse_swa", "grad_sink_logits"),
}


class Call:
    """What forward and backward have in common: the problem, its sizes and permutation, and where to run."""

    def __init__(self, context, attention, batch, queries, keys, sharing, draw, kv_heads, stream=0, scratch=None):
        self.context, self.attention = context, attention
        self.sizes = c.Sizes(batch, queries, keys)
        self.sharing, self.draw, self.kv_heads = sharing, draw, kv_heads
        # CUDA: the stream's address, and a function that gives memory of the stream: bytes -> (address, whatever keeps it).
        self.stream, self.scratch = stream, scratch

    def _permutation(self):
        if self.draw is None:
            return None
        length = self.attention.order_length or self.sizes.keys
        return permutation_for(self.context, self.draw, length, self.sharing, self.sizes.batch, self.kv_heads)

    def _plan(self, passes):
        return plan_for(self.context, self.attention, self.sizes.batch, self.sizes.queries, self.sizes.keys, passes)

    def forward(self, inputs, outputs, keep):
        """`keep`: outputs hold what backward needs as well (y_sa, y_swa, selected)."""
        plan, permutation = self._plan(c.PASS_FORWARD), self._permutation()
        place = Placement(self.context, inputs, outputs)
        try:
            args = c.ForwardArgs()
            args.struct_size = ctypes.sizeof(args)
            args.sizes = self.sizes
            args.permutation = permutation.handle if permutation else None
            saved = c.Saved()
            if keep:
                saved.struct_size = ctypes.sizeof(saved)
                saved.y_sa, saved.y_swa, saved.selected = (place.array(name) for name in ("y_sa", "y_swa", "selected"))
                args.saved = ctypes.pointer(saved)
            self._run("forward", plan, args, place)
        finally:
            place.release()

    def backward(self, inputs, outputs):
        """`inputs` holds what forward had and gave. Nothing else is carried over from forward: the plan and the permutation may have left their
        caches since, so `saved` is made anew by a forward call without queries, which enqueues nothing."""
        plan, permutation = self._plan(c.PASS_FORWARD | c.PASS_BACKWARD), self._permutation()
        place = Placement(self.context, inputs, outputs)
        try:
            saved = c.Saved()
            saved.struct_size = ctypes.sizeof(saved)
            empty = c.ForwardArgs()
            empty.struct_size = ctypes.sizeof(empty)
            empty.sizes = c.Sizes(self.sizes.batch, 0, self.sizes.keys)
            empty.permutation = permutation.handle if permutation else None
            empty.saved = ctypes.pointer(saved)
            c.call("sattn_forward", plan.handle, ctypes.byref(empty), c.Queue(self.stream), None, 0, None)
            saved.sizes = self.sizes
            saved.out = place.tensor("out")
            for name in ("lse", "lse_sa", "lse_swa", "y_sa", "y_swa", "selected"):
                setattr(saved, name, place.array(name))
            args = c.BackwardArgs()
            args.struct_size = ctypes.sizeof(args)
            args.saved = ctypes.pointer(saved)
            self._run("backward", plan, args, place)
        finally:
            place.release()

    def _run(self, name, plan, args, place):
        for each in _TENSORS[name]:
            setattr(args, each, place.tensor(each))
        for each in _ARRAYS[name]:
            setattr(args, each, place.array(each))
        function = "sattn_" + name
        if self.context.cuda_device is not None:
            self._enqueue(function, plan, args, c.PASS_FORWARD if name == "forward" else c.PASS_BACKWARD)
            return
        workspace = plan.borrow_workspace()
        args.workspace = workspace.handle if workspace else None
        event = c.Event()
        try:
            c.call(function, plan.handle, ctypes.byref(args), c.Queue(None), None, 0, ctypes.byref(event))
            try:
                c.call("sattn_event_wait", self.context.handle, event)
            finally:
                c.library().sattn_event_release(self.context.handle, ctypes.byref(event))
        finally:
            plan.return_workspace(workspace)
        place.receive()

    def _enqueue(self, function, plan, args, each):
        """CUDA: behind what is on the stream, without waiting. The workspace is memory of the stream, so giving it back at once is right."""
        wrapped = ctypes.c_void_p()
        size, keep = plan.workspace[each], None
        if size > 0:
            address, keep = self.scratch(size)
            c.call("sattn_buffer_wrap_cuda", self.context.handle, address, size, ctypes.byref(wrapped))
        try:
            args.workspace = wrapped.value
            c.call(function, plan.handle, ctypes.byref(args), c.Queue(self.stream), None, 0, None)
        finally:
            c.library().sattn_buffer_destroy(ctypes.byref(wrapped))
        del keep
