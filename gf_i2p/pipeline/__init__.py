"""What farms' histories and routers' netDbs say over months, by Spark: ingest, health, backtest, floodfills, report."""
