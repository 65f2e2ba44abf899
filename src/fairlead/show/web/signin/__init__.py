"""Signing in: the ways, the door that says who asks, and the routes of people. Not here: what is kept (`people`)."""
