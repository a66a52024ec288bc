"""Engines that can be compared. `contract` says what one must do; there is one file for each."""
