"""`gf-i2p leaves`, `publisher` and `farm`: what administrators say of a farm, from any machine."""
