"""Runs the command line: ``python -m policy_sched``."""

from __future__ import annotations

from policy_sched.cli.main import main

if __name__ == "__main__":
    main()
