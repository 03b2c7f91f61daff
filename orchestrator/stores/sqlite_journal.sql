-- A row's place is its run's number and, behind it, its own: what a run adds goes to the end of one
-- tree, which SQLite does without touching the pages beside it. With a key of its own, or without a
-- rowid, a commit writes twice as many pages.
-- A journal holds these texts, white space and all; one whose texts differ is refused.
CREATE TABLE runs (
        number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, started REAL NOT NULL,
        meta TEXT NOT NULL, holder TEXT NOT NULL DEFAULT '', lease_until REAL NOT NULL DEFAULT 0,
        fence INTEGER NOT NULL DEFAULT 0
    ) STRICT
    ;
CREATE TABLE journal (
        place INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL,
        at REAL NOT NULL, body BLOB NOT NULL, hash TEXT NOT NULL
    ) STRICT
    ;
CREATE TABLE cancellations (
        number INTEGER PRIMARY KEY, fence INTEGER NOT NULL, who TEXT NOT NULL,
        why TEXT NOT NULL, at REAL NOT NULL
    ) STRICT
    ;
PRAGMA user_version=1
