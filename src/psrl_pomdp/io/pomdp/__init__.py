"""The `.pomdp` format of Cassandra: tokens, reader, writer."""
