"""From a statement to a commit, with rivals, twins and lost answers."""
