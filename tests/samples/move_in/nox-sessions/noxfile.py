import nox

PYTHONS = ["3.12", "3.13"]
nox.options.sessions = ["lint", "tests"]


@nox.session(python=PYTHONS)
def tests(session):
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS[-1])
def lint(session):
    session.run("ruff", "check")


@nox.session
@nox.parametrize("django", ["4.2", "5.2"])
def django(session, django):
    session.run("pytest", "django")
