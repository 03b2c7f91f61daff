"""Reports of other analyzers: reads them and selects the results that concern the change."""
