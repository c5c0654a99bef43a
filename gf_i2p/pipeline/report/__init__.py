"""The report: the lake's figures, as one HTML file with charts that needs nothing but a browser.

In `gather`, Spark sums up the lake, within limits that do not depend on the data. `verdicts` says what needs attention.
`charts` draws by Altair, and `page` fills in the templates. `job.make_report` does all of this.
"""
