"""The job `health`: hours of servers and destinations, and which of them are anomalies."""
