"""What goes wrong in the pipeline for reasons that an operator can mend."""


class PipelineError(Exception):
    """A job cannot run or has failed; `str()` says why, and what to do next."""


class UsageError(PipelineError):
    """An argument, or the file that it names, is none of its kind; nothing was done."""
