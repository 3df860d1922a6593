"""What we believe of the cluster: nodes and pods as columns, and the cache that is the table."""
