"""SQL with a defect and without it, by the code that finds it."""

SAMPLES: dict[str, list[tuple[str, str]]] = {
    "sql-dynamic-statement": [
        (
            """CREATE FUNCTION find(name text) RETURNS SETOF users AS $$
BEGIN
  RETURN QUERY EXECUTE 'SELECT * FROM users WHERE name = ''' || name || '''';
END
$$ LANGUAGE plpgsql;
""",
            """CREATE FUNCTION find(name text) RETURNS SETOF users AS $$
BEGIN
  RETURN QUERY EXECUTE 'SELECT * FROM users WHERE name = $1' USING name;
END
$$ LANGUAGE plpgsql;
""",
        ),
        (
            """CREATE OR REPLACE FUNCTION sorted(column_name varchar(40)) RETURNS void AS $fn$
DECLARE statement text;
BEGIN
  statement := 'SELECT * FROM items ORDER BY ' || column_name;
  EXECUTE statement;
END
$fn$ LANGUAGE plpgsql;
""",
            """CREATE OR REPLACE FUNCTION sorted(column_name varchar(40)) RETURNS void AS $fn$
DECLARE statement text;
BEGIN
  statement := 'SELECT * FROM items ORDER BY ' || quote_ident(column_name);
  EXECUTE statement;
  EXECUTE format('ANALYZE %I', column_name);
END
$fn$ LANGUAGE plpgsql;
""",
        ),
        (
            """CREATE FUNCTION matches(kind regtype, value text, sign text) RETURNS bool AS $$
BEGIN
  EXECUTE format('SELECT %L::%s %s %L', value, kind::text, sign, value);
END
$$ LANGUAGE plpgsql;
""",
            """CREATE FUNCTION matches(kind regtype, value text, sign text, negate bool) RETURNS bool AS $$
BEGIN
  IF sign NOT IN ('<', '>') THEN RAISE EXCEPTION 'sign'; END IF;
  EXECUTE format('SELECT 1 %s 2', sign);
  EXECUTE format('SELECT %L::%s %s %L', value, kind::text, CASE WHEN negate THEN '<>' ELSE '=' END, value);
  EXECUTE format('SELECT %2$L::%1$s', kind, value) || ' ORDER BY 1';
END
$$ LANGUAGE plpgsql;
""",
        ),
        (
            """CREATE PROCEDURE dbo.FindOrders @customer nvarchar(50), @top int AS
BEGIN
  DECLARE @sql nvarchar(max) = N'SELECT TOP 10 * FROM Orders WHERE Customer = ''' + @customer + '''';
  EXEC sp_executesql @sql
END
GO
""",
            """CREATE PROCEDURE dbo.FindOrders @customer nvarchar(50), @top int AS
BEGIN
  DECLARE @sql nvarchar(max) = N'SELECT TOP 10 * FROM Orders WHERE Customer = @c';
  EXEC sp_executesql @sql, N'@c nvarchar(50)', @c = @customer
  EXEC dbo.Audit @customer
END
GO
""",
        ),
        (
            """ALTER PROCEDURE dbo.Clear @table sysname AS
EXEC('DELETE FROM ' + @table + ' WHERE expired = 1')
""",
            """ALTER PROCEDURE dbo.Clear @table sysname AS
EXEC('DELETE FROM ' + QUOTENAME(@table) + ' WHERE expired = 1')
""",
        ),
        (
            """CREATE OR REPLACE PROCEDURE clear_log(p_owner IN VARCHAR2) IS
  v_count NUMBER;
BEGIN
  EXECUTE IMMEDIATE 'DELETE FROM log WHERE owner = ''' || p_owner || '''';
END;
""",
            """CREATE OR REPLACE PROCEDURE clear_log(p_owner IN VARCHAR2) IS
  v_count NUMBER;
BEGIN
  EXECUTE IMMEDIATE 'DELETE FROM log WHERE owner = :1' USING p_owner;
END;
""",
        ),
        (
            """DELIMITER //
CREATE PROCEDURE find_user(IN who VARCHAR(40))
BEGIN
  SET @statement = CONCAT('SELECT * FROM `users` WHERE name = "', who, '"');
  PREPARE ready FROM @statement;
  EXECUTE ready;
END //
""",
            """DELIMITER //
CREATE PROCEDURE find_user(IN who VARCHAR(40))
BEGIN
  SET @who = who;
  PREPARE ready FROM 'SELECT * FROM `users` WHERE name = ?';
  EXECUTE ready USING @who;
END //
""",
        ),
    ],
    "sql-grant-everyone": [
        ("GRANT ALL PRIVILEGES ON accounts TO PUBLIC;\n", "GRANT SELECT ON accounts TO reports;\n"),
        ("GRANT ALL ON *.* TO 'app'@'%';\n", "GRANT ALL ON shop.* TO 'app'@'10.0.0.%';\n"),
        ("ALTER ROLE app WITH SUPERUSER;\n", "ALTER ROLE app WITH NOSUPERUSER CREATEDB;\n"),
        (
            "ALTER SERVER ROLE sysadmin ADD MEMBER app;\n",
            "ALTER SERVER ROLE ##MS_LoginManager## ADD MEMBER app;\n",
        ),
    ],
    "sql-program": [
        ("EXEC master..xp_cmdshell 'dir';\n", "EXEC master..xp_fixeddrives;\n"),
        (
            "EXEC sp_configure 'xp_cmdshell', 1;\nRECONFIGURE;\n",
            "EXEC sp_configure 'xp_cmdshell', 0;\nRECONFIGURE;\n",
        ),
        ("COPY lines FROM PROGRAM 'cat /etc/passwd';\n", "COPY lines FROM STDIN;\n"),
    ],
    "sql-definer-path": [
        (
            "CREATE FUNCTION own() RETURNS int LANGUAGE sql SECURITY DEFINER AS $$ SELECT 1; $$;\n",
            "CREATE FUNCTION own() RETURNS int LANGUAGE sql SECURITY DEFINER\n"
            "SET search_path = pg_catalog, pg_temp AS $$ SELECT 1; $$;\n",
        )
    ],
    "sql-row-security-off": [
        (
            "ALTER TABLE notes DISABLE ROW LEVEL SECURITY;\n",
            "ALTER TABLE notes ENABLE ROW LEVEL SECURITY;\n",
        )
    ],
    "sql-weak-password-hash": [
        (
            "UPDATE users SET hash = MD5(password) WHERE hash IS NULL;\n",
            "UPDATE users SET etag = MD5(body), hash = crypt(password, gen_salt('bf'))\n"
            "WHERE hash IS NULL;\n",
        ),
        (
            "INSERT INTO users VALUES (@name, HASHBYTES('SHA1', @password));\n",
            "INSERT INTO files VALUES (@name, HASHBYTES('SHA1', @content));\n",
        ),
    ],
    "sql-null-comparison": [
        (
            "SELECT id FROM users WHERE active AND deleted_at = NULL;\n",
            "SELECT id FROM users WHERE active AND deleted_at IS NULL;\n",
        ),
        (
            "SELECT CASE WHEN price <> NULL THEN 1 ELSE 0 END FROM items;\n",
            "UPDATE items SET price = NULL, sale = NULL WHERE id = 4;\n",
        ),
    ],
    "sql-all-rows": [
        ("DELETE FROM orders;\n", "DELETE FROM orders WHERE created < '2020-01-01';\n"),
        (
            "BEGIN;\nDELETE FROM orders;\nCOMMIT;\n",
            "BEGIN;\nDELETE FROM tmp_sessions;\nDELETE FROM #ids;\nCOMMIT;\n",
        ),
        ("UPDATE users SET role = 'admin';\n", "UPDATE users SET role = 'admin' WHERE id = 1;\n"),
        (
            "UPDATE orders SET paid = TRUE;\n",
            "ALTER TABLE orders ADD COLUMN paid boolean;\nUPDATE orders SET paid = TRUE;\n"
            "UPDATE orders SET name = lower(name);\nUPDATE settings SET theme = 'dark';\n",
        ),
    ],
    "sql-drop": [
        (
            "ALTER TABLE users DROP COLUMN email;\n",
            "ALTER TABLE users DROP CONSTRAINT users_email_key;\n",
        ),
        (
            "DROP TABLE customers;\n",
            "DROP TABLE IF EXISTS customers;\nCREATE TABLE customers (id int);\n",
        ),
    ],
    "sql-not-null-without-default": [
        (
            "ALTER TABLE users ADD COLUMN plan text NOT NULL;\n",
            "ALTER TABLE users ADD COLUMN plan text NOT NULL DEFAULT 'free';\n",
        ),
        (
            "ALTER TABLE users ADD a int DEFAULT 0 NOT NULL, ADD b numeric(8, 2) NOT NULL;\n",
            "CREATE TABLE users (id int);\nALTER TABLE users ADD b numeric(8, 2) NOT NULL;\n",
        ),
    ],
}
