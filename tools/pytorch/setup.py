"""Beside pyproject.toml: the C library inside a wheel, or where to find it.

`pip install .` remembers this repository, whose build folder has the library. With SATTN_BUNDLE=FILE the file is packed into the wheel, which then
needs nothing else; wheel.sh does that.
"""

import os
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

BUNDLE = os.environ.get("SATTN_BUNDLE")
HERE = os.path.dirname(os.path.abspath(__file__))


class BuildPy(build_py):
    def run(self):
        super().run()
        package = os.path.join(self.build_lib, "sattn")
        # What an earlier build left behind would be packed as well.
        shutil.rmtree(os.path.join(package, "lib"), ignore_errors=True)
        source = os.path.join(package, "_source.py")
        if os.path.exists(source):
            os.remove(source)
        if BUNDLE:
            os.makedirs(os.path.join(package, "lib"))
            name = {"nt": "sattn.dll"}.get(os.name, "libsattn.dylib" if BUNDLE.endswith(".dylib") else "libsattn.so.0")
            shutil.copyfile(BUNDLE, os.path.join(package, "lib", name))
        elif not self.editable_mode:
            with open(source, "w") as file:
                file.write(f"FOLDER = {os.path.normpath(os.path.join(HERE, '..', '..'))!r}\n")


class Bundled(Distribution):
    def has_ext_modules(self):
        return bool(BUNDLE)


try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    def get_tag(self):
        python, abi, platform = super().get_tag()
        # Any Python 3 will do: the library is loaded by ctypes.
        return ("py3", "none", platform) if BUNDLE else (python, abi, platform)


setup(cmdclass={"build_py": BuildPy, "bdist_wheel": Wheel}, distclass=Bundled)
