-- Lists of runs look up one row of each, its verdict, by key.
CREATE INDEX diffcourt_journal_key ON diffcourt_journal (run, key);
