"""The solvers that come with rankplug, one folder each."""

if __name__ != "rankplug_plugins":
    raise ImportError(
        f"these solvers are installed as 'rankplug_plugins', not as {__name__!r}: "
        "import rankplug_plugins"
    )
