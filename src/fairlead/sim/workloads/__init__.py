"""What is simulated: applications drawn as published, job tables of sites, a site's own history.

`profiles` curves of bandwidth over granted resources, `published` the generator of the scheduling study.
"""
