"""The state that replicas of a service share in PostgreSQL: claims, the log, documents, conversations, catalogues."""
