"""The report: the lake's figures, as one HTML file with charts that needs nothing but a browser.

Spark sums up (`gather`), within limits that do not depend on the data; pure functions draw (`page` and what it uses).
`job.make_report` does both.
"""
