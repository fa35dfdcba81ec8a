"""`ciguard serve`: a service that judges the runs of an organisation, stores and shows them."""
