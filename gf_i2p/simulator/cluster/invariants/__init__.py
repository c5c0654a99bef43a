"""The rules that each step of a simulated cluster must keep, in families; `all_invariants` lists the rules."""
