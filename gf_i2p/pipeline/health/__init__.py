"""The job `health`: hours of servers and destinations, and the hours that are anomalies."""
