"""Errors of the pipeline that an operator can mend."""


class PipelineError(Exception):
    """A job cannot run or has failed; `str()` says why, and how to go on."""


class UsageError(PipelineError):
    """An argument, or the file that an argument names, is wrong; the job has done nothing."""
