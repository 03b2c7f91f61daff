"""The agents of a review: plan, escalation, proofs, verifier, judge, text guards, summary."""
