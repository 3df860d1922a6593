"""Plugins of the house: compiled rules, and what rules cannot say."""
