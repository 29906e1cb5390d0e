"""The PostgreSQL collection: one database for many stores, processes and machines."""
