"""`policy-sched console`: a local web server with pages about one cluster and its policies.

sources/ says what is looked at (files, a live cluster, a running instance), pages/ has one module
for each page, security decides which requests are served, and server puts them together.
"""

from policy_sched.console.security import opening_file as opening_file
from policy_sched.console.server import ConsoleServer as ConsoleServer, serving as serving
from policy_sched.console.sources import (
    ClusterSource as ClusterSource,
    FilesSource as FilesSource,
    InputFiles as InputFiles,
    RunningSource as RunningSource,
    open_store as open_store,
)
