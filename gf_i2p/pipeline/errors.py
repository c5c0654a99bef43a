"""Errors of the pipeline. An operator can remove the cause of each error."""


class PipelineError(Exception):
    """A job cannot run, or has failed. `str()` says why, and what to do next."""


class UsageError(PipelineError):
    """An argument is wrong, or the file that an argument names. The job has done nothing."""


class NothingToDoError(PipelineError):
    """The lake has no rows that the job could work on. Other jobs may have work."""
