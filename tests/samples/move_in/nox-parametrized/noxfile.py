import nox


@nox.session
@nox.parametrize("django", ["4.2", "5.2"])
def tests(session, django):
    session.run("pytest")
