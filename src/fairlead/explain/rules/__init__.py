"""Diagnosis rules as data: a condition over metrics, evidence, advice. A site can add its own or override ours."""
