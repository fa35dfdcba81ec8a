"""The languages in which test tools select tests, one module each."""
