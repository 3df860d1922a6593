"""The nouns of Kubernetes that a scheduler reads, as typed structs decoded from API JSON."""
