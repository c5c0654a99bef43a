"""The job `backtest`: replays farms' logs with other parameters, and recommends parameters."""
