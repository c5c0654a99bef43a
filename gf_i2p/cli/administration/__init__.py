"""`gf-i2p leaves`, `publisher` and `farm`: administrators' changes to a farm, and the state that follows."""
