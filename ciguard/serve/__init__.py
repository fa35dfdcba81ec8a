"""`ciguard serve`: an organisation's runs, judged as they finish, kept and shown."""
