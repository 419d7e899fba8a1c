"""Run by test_cuda.py with the emulated libcuda of the C tests in place: memory, stream and context of a caller as PyTorch would have them."""

import ctypes

import numpy as np

from sattn import _runtime as runtime
from sattn._problem import attention_struct

cuda = ctypes.CDLL("libcuda.so.1")


def driver(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, f"{name}: {status}"


class Device:
    def __init__(self):
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        driver("cuInit", 0)
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        driver("cuCtxSetCurrent", self.context)
        driver("cuStreamCreate", ctypes.byref(self.stream), 1)  # not synchronised with the default stream

    def allocate(self, size):
        address = ctypes.c_uint64()
        driver("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value, None

    def send(self, array):
        address, _ = self.allocate(array.nbytes)
        driver("cuMemcpyHtoD_v2", ctypes.c_uint64(address), array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        b, n, h, d = array.shape
        return runtime.Memory(address, array.shape, (n * h * d, h * d, d, 1), 4)

    def receive(self, memory):
        array = np.empty(memory.shape, np.float32)
        driver("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(memory.address), ctypes.c_size_t(array.nbytes))
        return array


def run(context, arrays, memory, stream, scratch, receive):
    """Forward and backward of UNION; the same calls that _torch.py makes."""
    batch, n, heads, width = arrays["query"].shape
    kv_heads = arrays["key"].shape[2]
    struct = attention_struct(
        "union", "fp32", heads, kv_heads, width, True, (4,), (3,), False, 0, "shared", 1, 0, 0, 0.0, 0.0, False, False, "fp32", False, False, False
    )
    call = runtime.Call(context, struct, batch, n, n, "shared", runtime.Draw(5), kv_heads, stream, scratch)
    inputs = {name: memory(arrays[name]) for name in ("query", "key", "value")}
    out, lse = memory(np.zeros_like(arrays["query"])), memory(np.zeros((batch, heads, n, 1), np.float32))
    flat = runtime.Memory(lse.address, lse.shape, None, 4)
    call.forward(inputs, {"out": out, "lse": flat}, True)
    grads = {"grad_" + name: memory(np.zeros_like(arrays[name])) for name in inputs}
    call.backward({**inputs, "out": out, "lse": flat, "grad_out": memory(arrays["grad_out"])}, grads)
    return [receive(each) for each in (out, *grads.values())]


def main():
    rng = np.random.default_rng(1)
    shapes = {"query": (2, 9, 4, 64), "key": (2, 9, 2, 64), "value": (2, 9, 2, 64), "grad_out": (2, 9, 4, 64)}
    arrays = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    device = Device()
    context = runtime.cuda_context(0, lambda: device.context)

    def finished(memory):
        driver("cuStreamSynchronize", device.stream)
        return device.receive(memory)

    ours = run(context, arrays, device.send, device.stream.value, device.allocate, finished)
    kept = []

    def on_host(array):
        kept.append(np.ascontiguousarray(array))
        b, n, h, d = array.shape
        return runtime.Memory(kept[-1].ctypes.data, array.shape, (n * h * d, h * d, d, 1), 4)

    def at(memory):
        return next(array for array in kept if array.ctypes.data == memory.address)

    expected = run(runtime.host_context("reference"), arrays, on_host, 0, None, at)
    for a, b in zip(ours, expected):
        assert np.abs(b).max() > 0.1 and np.abs(a - b).max() <= 2e-5 * np.abs(b).max(), np.abs(a - b).max()
    print("equal on", context.device)


if __name__ == "__main__":
    main()
