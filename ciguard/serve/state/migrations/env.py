"""Entry of Alembic: runs the migrations in the transaction that `database.open_database` began."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
