"""Who a client is, and what it may do: authentication, RBAC, and the reviews that tell of them."""
