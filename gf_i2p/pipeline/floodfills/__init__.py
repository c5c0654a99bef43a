"""The job `floodfills`: reads routers' netDbs, and finds the floodfills closest to a farm's hashes."""
