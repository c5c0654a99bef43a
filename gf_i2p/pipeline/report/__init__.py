"""The report: the lake's figures, as one HTML file with charts that needs nothing but a browser.

In `gather`, Spark sums up the lake, within limits that do not depend on the data. Pure functions draw the page (`page`,
and the modules that `page` uses). `job.make_report` does both.
"""
