"""`gf-i2p pipeline`: each job is a module with the arguments and the output of the job.

A job's module imports Spark in its functions only: `gf-i2p pipeline --help` needs no Spark.
"""
