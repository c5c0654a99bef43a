"""What goes wrong in the pipeline for reasons that an operator can mend."""


class PipelineError(Exception):
    """A job cannot run or has failed; `str()` says why, and what to do next."""
