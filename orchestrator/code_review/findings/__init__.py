"""Findings: from what analyzers and agents report to the findings of a verdict.

``verdict_findings`` goes the whole way, with findings in the form of ``located_findings``:

- Analyzers' reports: ``analyzer_findings``, ``evidence_from_journal``.
- Agents' reports: ``agent_reports``, ``citations``, ``quote_location``; sent back for correction:
  ``correction_requests``.
- One defect, one finding: ``merging``; kinds of weakness: ``weakness_kinds.yaml``.
- Opinions of others: ``agent_reports``, ``verification``; the result: ``finding_assembly``.
- From earlier reviews: ``previous_review``, ``carried_findings``, ``settled_places``.
- What people decided: ``waivers``, ``dismissals``, ``finding_context``.
- What was read and had to run: ``reading_depth``, ``required_checks``, ``measured_criteria``; how a
  gap is closed: ``gap_remedies``.
"""
