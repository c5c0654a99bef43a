"""The job `backtest`: replays the farms' logs with other parameters, and recommends parameters."""
