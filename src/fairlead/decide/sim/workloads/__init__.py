"""What is simulated: applications drawn as published, months like a machine's, job tables of sites, own history.

`profiles` curves of bandwidth over granted resources, `published` the generator of the scheduling study, `taihulight`
months and years by published figures (`sunway`, `io_rules`), `swf` and `tables` what was read, with what was dropped.
"""
