"""`gf-i2p pipeline`: each job is a module that adds its arguments, runs the job, and prints what came of it.

No job's module imports Spark outside of its functions: `gf-i2p pipeline --help` does without it.
"""
