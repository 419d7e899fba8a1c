"""Makes small stand-ins for the CUDA libraries that a PyTorch wheel links to, so that PyTorch can be imported on a machine without an NVIDIA GPU.

    python cuda_standins.py SITE_PACKAGES

PyPI's wheel of PyTorch for Linux is the CUDA build. Its needs (cuBLAS, cuDNN, NCCL, ...) are more than 1.5 GB to download, and none of it is ever
called without a GPU; but the loader wants every symbol to exist. A stand-in exports exactly the symbols that the wheel asks for; each function
returns 999 ("unknown error" of CUDA), so PyTorch finds no device. Does nothing for a library that is already installed.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

# What belongs to a library that does not version its symbols.
PREFIXES = (
    ("nccl", "libnccl.so.2"),
    ("pnccl", "libnccl.so.2"),
    ("nvshmem", "libnvshmem_host.so.3"),
    ("cusparseLt", "libcusparseLt.so.0"),
    ("cuFile", "libcufile.so.0"),
    ("cupti", "libcupti.so.13"),
)
SYSTEM = re.compile(r"^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux.*|libgomp|libcuda|libz|libquadmath)\.so\.\d+$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(site):
    torch = os.path.join(site, "torch", "lib")
    libraries = [os.path.join(torch, name) for name in sorted(os.listdir(torch)) if ".so" in name]
    target = os.path.join(site, "nvidia", "cu13", "lib")
    present = set(os.listdir(torch))
    for folder, _, names in os.walk(os.path.join(site, "nvidia")):
        present.update(names)
    missing = set()
    symbols = collections.defaultdict(set)
    for library in libraries:
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library)):
            if needed not in present and not SYSTEM.match(needed):
                missing.add(needed)
        for line in run("nm", "-D", "--undefined-only", library).splitlines():
            kind, symbol = line.split()[-2:]
            name, _, version = symbol.partition("@")
            version = version.lstrip("@")
            owner = next((soname for prefix, soname in PREFIXES if name.startswith(prefix)), version)
            if owner:
                symbols[owner].add((name, version))
    os.makedirs(target, exist_ok=True)
    for soname in sorted(missing):
        with tempfile.TemporaryDirectory() as folder:
            source, script = os.path.join(folder, "standin.c"), os.path.join(folder, "standin.map")
            names = sorted(symbols[soname])
            with open(source, "w") as file:
                for name, _ in names:
                    kind, value = ("const char *", '"stand-in for a CUDA library"') if "String" in name else ("long ", "999")
                    file.write(f"{kind}{name}(void);\n{kind}{name}(void) {{ return {value}; }}\n")
                file.write("int sattn_standin(void);\nint sattn_standin(void) { return 1; }\n")
            command = ["cc", "-shared", "-fPIC", "-fno-builtin", "-w", "-Wl,-soname," + soname, "-o", os.path.join(target, soname), source]
            if any(version for _, version in names):
                with open(script, "w") as file:
                    file.write(f"{next(version for _, version in names if version)} {{ global: *; }};\n")
                command.append("-Wl,--version-script," + script)
            run(*command)
            print(f"stand-in for {soname}: {len(names)} symbols")


if __name__ == "__main__":
    main(sys.argv[1])
