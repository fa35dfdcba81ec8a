import nox

@nox.session(python=["3.12", "3.13"])
def tests(session):
    session.install("pytest", "sortedcontainers>=2.4")
    session.run("pytest", "-q", *session.posargs)

@nox.session
def oldest(session):
    session.install("pytest", "sortedcontainers==2.3.0")
    session.run("python", "-m", "pytest", "tests")
