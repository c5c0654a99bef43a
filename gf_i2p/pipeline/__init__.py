"""Spark jobs on the histories of many farms and on routers' netDbs. The node never imports this package."""
