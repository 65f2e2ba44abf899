"""Diagnosis while a machine runs: jobs as they end, components minute by minute, the system by the hour.

Not here: what is abnormal, who is to blame, what to do (`fairlead.explain.analysis`, pure); the loop (`analysis_loop`).
"""
