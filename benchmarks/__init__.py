"""rankplug against its rivals and against the speed of memory: ``python -m benchmarks``."""
