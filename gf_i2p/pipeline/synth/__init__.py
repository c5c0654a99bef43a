"""The job `synth`: makes histories of invented farms, to try the other jobs with."""
