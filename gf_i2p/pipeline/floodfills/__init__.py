"""The job `floodfills`: reads routers' netDbs, and finds the floodfills that are closest to a farm's hashes."""
