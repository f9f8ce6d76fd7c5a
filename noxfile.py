"""Tasks of development, a session each: ``nox -l`` lists them, ``nox -s lint`` runs one.

With ``--no-venv`` a session uses the environment that it is called from, and installs nothing.
"""

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True


def install(session: nox.Session, *packages: str) -> None:
    """Install packages into the session's environment, if it has one of its own."""
    if session.virtualenv.venv_backend != "none":
        session.install(*packages)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; arguments go to pytest."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "pytest", *(session.posargs or ["-n", "auto"]))


@nox.session
def long(session: nox.Session) -> None:
    """Run the long tests: attacks in bulk, odd problems against an oracle, repeats of kills."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "pytest", "-n", "auto", "-m", "long")


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the tests and say which lines and branches none of them reaches; 15 minutes."""
    install(session, "-e", ".[test]", "coverage>=7.10")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *(session.posargs or ["-n", "auto"]))
    session.run("coverage", "combine", "-q")
    session.run("coverage", "report", "--skip-covered", "--show-missing")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types."""
    install(session, "-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("cython-lint", "rankplug", "plugins")
    session.run("mypy")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Fuzz the readers; arguments go to the driver."""
    install(session, "-e", ".[test,fuzz]")
    session.run("python", "-m", "tests.long.fuzz", *(session.posargs or ["--runs", "3000"]))


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Measure: name experiments after ``--``."""
    install(session, "-e", ".[test,bench]")
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site of the documentation, docs/_build/index.html; a warning is an error."""
    install(session, "-e", ".[docs]")
    options = ("-q", "-W", "--keep-going", "-E")
    session.run("python", "-m", "sphinx", "-b", "html", *options, "docs", "docs/_build")


@nox.session
def build(session: nox.Session) -> None:
    """Build the sdist, the wheel from it, and check both."""
    install(session, "build", "twine", "validate-pyproject")
    session.run("validate-pyproject", "pyproject.toml")
    folder = session.create_tmp()
    session.run("python", "-m", "build", "--outdir", folder)
    session.run("twine", "check", "--strict", f"{folder}/*")
