"""The agents of a review: plan, escalation, judge, text guards, summary."""
