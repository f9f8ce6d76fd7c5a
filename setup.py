"""Packages and compiled modules: what pyproject.toml, which holds the rest, has no words for."""

import os
import sys
import sysconfig
from glob import glob

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

# The folder of each package that lies at the top.
FOLDERS = {"rankplug": "rankplug", "rankplug_plugins": "plugins", "rankplug_recipes": "recipes"}

# Those that take the compiler longest come first, so that no core idles at the end.
MODULES = {
    "rankplug._fast.passes": "rankplug/_fast/passes.pyx",
    "rankplug._fast.pairs": "rankplug/_fast/pairs.pyx",
    "rankplug_plugins.sopopo._sopopo_fast": "plugins/sopopo/_sopopo_fast.pyx",
    "rankplug_plugins.larank._larank_fast": "plugins/larank/_larank_fast.pyx",
    "rankplug._fast.projection": "rankplug/_fast/projection.pyx",
}

# Cython's own code for memoryviews, which it would otherwise put into each of the modules.
SHARED = "rankplug._fast._cyutility"

# Debugging symbols would take a quarter of the time and most of the wheel.
FLAGS = ["-g0", "-O3", "-fopenmp-simd", "-falign-loops=32"]

# One wheel serves CPython 3.11 and all later versions: a call takes 0.15 microseconds longer by
# their stable interface, a solve no longer. Builds without a global lock have no such interface.
STABLE = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
INTERFACE = {"define_macros": [("Py_LIMITED_API", "0x030B0000")], "py_limited_api": True}
OPTIONS = {"extra_compile_args": FLAGS, **(INTERFACE if STABLE else {})}


class BuildModules(build_ext):
    """Build all modules: each .pyx into C, one after the other, then the C on all cores."""

    def finalize_options(self):
        """Compile on all cores unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        """Translate all modules, which have to agree on what they share, and compile them."""
        from Cython.Build import cythonize

        compiled = cythonize(
            [Extension(module.name, list(module.sources)) for module in self.extensions],
            shared_utility_qualified_name=SHARED,
            force=self.force,
        )
        for module, in_c in zip(self.extensions, compiled, strict=True):
            module.sources = in_c.sources
        super().build_extensions()


def packages():
    """Every folder with an ``__init__.py`` below those at the top."""
    for package, folder in FOLDERS.items():
        yield package
        yield from (f"{package}.{below}" for below in find_packages(folder))


def modules():
    """The compiled modules."""
    headers = glob("rankplug/_fast/*.h")
    for name, source in MODULES.items():
        yield Extension(name, [source], depends=headers, include_dirs=["rankplug/_fast"], **OPTIONS)
    yield Extension(SHARED, ["rankplug/_fast/_cyutility.c"], **OPTIONS)


setup(
    packages=list(packages()),
    package_dir=FOLDERS,
    ext_modules=list(modules()),
    cmdclass={"build_ext": BuildModules},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
