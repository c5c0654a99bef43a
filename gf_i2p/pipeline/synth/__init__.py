"""The job `synth`: makes histories of farms that never were."""
