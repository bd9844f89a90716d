-- The schema of a team workspace, version 1; the other files contain what later versions add. Runs inside one transaction
-- with `search_path` set to the workspace's own schema, so that names need no prefix and one database can hold several
-- workspaces.
--
-- Only `append`, `append_iteration`, `import_records` and `note_restore` write. They run with the rights of the schema's owner; the
-- application role may call them and read.

-- One row: what the workspace is and where its images are.
CREATE TABLE settings (
    only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    schema_version integer NOT NULL,
    workspace      text NOT NULL,
    images         text NOT NULL,
    created        timestamptz NOT NULL DEFAULT now(),
    -- Added to transaction ids to keep `ord` growing after a restore into a cluster whose ids start lower.
    ord_offset     bigint NOT NULL DEFAULT 0
);

-- The last session number given out for each UTC day. `day` counts from 0001-01-01 = 1, as in the records.
CREATE TABLE days (
    day  integer PRIMARY KEY,
    last integer NOT NULL CHECK (last >= 0)
);

-- Where each session stands: what the next record builds on, and a row of the listing.
CREATE TABLE heads (
    day             integer NOT NULL,
    number          integer NOT NULL,
    next_seq        integer NOT NULL,
    tip             bytea NOT NULL,
    -- UTF-8, as bytes: PostgreSQL's text cannot hold U+0000.
    title           bytea,
    project         bytea,
    archived        boolean NOT NULL,
    created         bigint,
    modified        bigint,
    iteration_count integer NOT NULL,
    current_index   integer NOT NULL,
    ord             bigint NOT NULL,
    PRIMARY KEY (day, number),
    -- One constraint, since PostgreSQL prepares each of them again for every statement.
    CONSTRAINT head_is_consistent CHECK (
        number >= 1 AND next_seq >= 1 AND length(tip) = 32
        AND current_index = iteration_count - 1
        -- A session is listed if it has an iteration; only one whose iterations were all lost has none.
        AND (created IS NULL OR iteration_count >= 1)
        AND (created IS NULL) = (modified IS NULL)
        AND coalesce(modified >= created, true))
) WITH (fillfactor = 85);
CREATE INDEX heads_by_recency ON heads (archived, modified, day, number) WHERE created IS NOT NULL;

-- The events, byte for byte as in the embedded store.
CREATE TABLE records (
    day    integer NOT NULL,
    number integer NOT NULL,
    seq    integer NOT NULL,
    kind   smallint NOT NULL,
    -- Commit order for followers: see `append`.
    ord    bigint NOT NULL,
    pos    bigint GENERATED ALWAYS AS IDENTITY,
    role   name NOT NULL DEFAULT session_user,
    bytes  bytea NOT NULL,
    PRIMARY KEY (day, number, seq)
);
CREATE INDEX records_by_order ON records (ord, pos);

-- Idempotency keys (half of their BLAKE3 hash) and what they recorded.
CREATE TABLE keys (
    key    bytea PRIMARY KEY,
    day    integer NOT NULL,
    number integer NOT NULL,
    seq    integer NOT NULL,
    index  integer
);

-- Texts too long to stay inside a record, by BLAKE3 hash.
CREATE TABLE texts (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    text bytea NOT NULL
);

-- Iterations derived from another one than the iteration before them, in any session.
CREATE TABLE links (
    parent_day    integer NOT NULL,
    parent_number integer NOT NULL,
    parent_index  integer NOT NULL,
    day           integer NOT NULL,
    number        integer NOT NULL,
    index         integer NOT NULL,
    PRIMARY KEY (parent_day, parent_number, parent_index, day, number, index)
);

-- Totals in several rows, because one row would make all writers wait for each other. Readers add them up.
CREATE TABLE counters (
    slot     smallint PRIMARY KEY,
    sessions bigint NOT NULL DEFAULT 0,
    archived bigint NOT NULL DEFAULT 0,
    events   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO counters (slot) SELECT generate_series(0, 127);

CREATE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'table % is append-only', TG_TABLE_NAME USING ERRCODE = 'RT001';
END $$;

CREATE TRIGGER records_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON records
    FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
CREATE TRIGGER texts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON texts
    FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
CREATE TRIGGER keys_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON keys
    FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
CREATE TRIGGER links_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON links
    FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
CREATE TRIGGER heads_never_removed BEFORE DELETE OR TRUNCATE ON heads
    FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
CREATE TRIGGER days_never_removed BEFORE DELETE OR TRUNCATE ON days
    FOR EACH STATEMENT EXECUTE FUNCTION reject_change();

-- Reads a little-endian number of two or four bytes.
CREATE FUNCTION le_u16(bytes bytea, at integer) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN get_byte(bytes, at) + (get_byte(bytes, at + 1) << 8);
CREATE FUNCTION le_u32(bytes bytea, at integer) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN get_byte(bytes, at)::bigint + (get_byte(bytes, at + 1)::bigint << 8)
        + (get_byte(bytes, at + 2)::bigint << 16) + (get_byte(bytes, at + 3)::bigint << 24);

-- Whether bytes begin as a record of a session does.
CREATE FUNCTION is_record_of(bytes bytea, day integer, number integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substr(bytes, 1, 6) = '\xf65254450100' AND length(bytes) >= 104
        AND le_u32(bytes, 16) = day AND le_u32(bytes, 20) = number;

-- The smallest `ord` that a transaction still running could write: everything below it is complete.
CREATE FUNCTION horizon() RETURNS bigint LANGUAGE sql STABLE
    RETURN pg_snapshot_xmin(pg_current_snapshot())::text::bigint + (SELECT ord_offset FROM settings);

-- Locks a session until the end of the transaction and returns where it stands.
CREATE FUNCTION lock_session(p_day integer, p_number integer) RETURNS SETOF heads
    LANGUAGE sql VOLATILE SECURITY DEFINER
    AS $$ SELECT * FROM heads WHERE day = p_day AND number = p_number FOR UPDATE $$;

-- Locks a day's counter until the end of the transaction and returns the last number given out.
CREATE FUNCTION lock_day(p_day integer) RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    v_last integer;
BEGIN
    SELECT last INTO v_last FROM days WHERE day = p_day FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO days VALUES (p_day, 0) ON CONFLICT DO NOTHING;
        SELECT last INTO v_last FROM days WHERE day = p_day FOR UPDATE;
    END IF;
    RETURN v_last;
END $$;

-- Stores records of one session on top of `h`, which the caller has locked. The header of every record is read here:
-- it must belong to the session, take the next place and name the hash of the record before it.
--
-- `p_index`, `p_time`, `p_title`, `p_project` repeat what the payloads say (index of the iteration concerned, the time
-- that moves `modified`, the title and project that are set). `p_links` has four numbers a link: parent day, number,
-- index, and the index of the child.
CREATE FUNCTION store_records(
    h heads, p_exact boolean, p_records bytea[], p_index integer[], p_time bigint[], p_title bytea[],
    p_project bytea[], p_keys bytea[], p_key_seq integer[], p_key_index integer[], p_links integer[],
    p_text_hashes bytea[], p_texts bytea[]
) RETURNS heads LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    before heads := h;
    v_new boolean := h.next_seq = 0;
    v_record bytea;
    v_kind integer;
    v_seq bigint;
    v_ord bigint;
    v_listed integer;
    v_archived integer;
BEGIN
    -- A reader that remembers "everything below 41" must not miss a 40 that commits later. Transaction ids are
    -- assigned early, but `horizon` tells below which none is still running, so readers never go past it for good. The
    -- greatest of both keeps the order of a session, whose transactions need not get their ids in the order of locking.
    v_ord := greatest(pg_current_xact_id()::text::bigint + (SELECT ord_offset FROM settings), h.ord);
    IF p_texts IS NOT NULL THEN
        INSERT INTO texts (hash, text)
            SELECT hash, text FROM unnest(p_text_hashes, p_texts) AS t (hash, text) ORDER BY hash
            ON CONFLICT DO NOTHING;
    END IF;
    FOR i IN 1 .. cardinality(p_records) LOOP
        v_record := p_records[i];
        v_kind := le_u16(v_record, 6);
        v_seq := le_u32(v_record, 24);
        IF NOT is_record_of(v_record, h.day, h.number) THEN
            RAISE EXCEPTION 'not a record of session (%, %)', h.day, h.number USING ERRCODE = 'RT002';
        END IF;
        IF p_exact AND (v_seq <> h.next_seq OR substr(v_record, 37, 32) <> h.tip) OR v_seq < h.next_seq THEN
            RAISE EXCEPTION 'record % does not follow the one before it', v_seq USING ERRCODE = 'RT002';
        END IF;
        CASE v_kind
            WHEN 1 THEN
                IF v_seq <> 0 THEN
                    RAISE EXCEPTION 'a session starts only once' USING ERRCODE = 'RT002';
                END IF;
                h.title := p_title[i];
                h.project := p_project[i];
            WHEN 2 THEN
                IF p_exact THEN
                    IF h.archived THEN
                        RAISE EXCEPTION 'the session is archived' USING ERRCODE = 'RT003';
                    END IF;
                    IF p_index[i] <> h.iteration_count THEN
                        RAISE EXCEPTION 'iteration % cannot be number %', p_index[i], h.iteration_count
                            USING ERRCODE = 'RT002';
                    END IF;
                END IF;
                h.iteration_count := greatest(h.iteration_count, p_index[i] + 1);
                h.created := coalesce(h.created, p_time[i]);
                h.modified := greatest(h.modified, p_time[i]);
            WHEN 3 THEN
                IF p_exact AND p_index[i] >= h.iteration_count THEN
                    RAISE EXCEPTION 'there is no iteration %', p_index[i] USING ERRCODE = 'RT002';
                END IF;
                IF h.created IS NOT NULL THEN
                    h.modified := greatest(h.modified, p_time[i]);
                END IF;
            WHEN 4 THEN
                h.title := coalesce(p_title[i], h.title);
                h.project := coalesce(p_project[i], h.project);
            WHEN 5 THEN h.archived := true;
            WHEN 6 THEN h.archived := false;
            WHEN 7 THEN h.iteration_count := greatest(h.iteration_count, coalesce(p_index[i], -1) + 1);
            ELSE
                IF p_exact THEN
                    RAISE EXCEPTION 'unknown kind of event %', v_kind USING ERRCODE = 'RT002';
                END IF;
        END CASE;
        h.next_seq := v_seq + 1;
        h.tip := substr(v_record, length(v_record) - 31, 32);
        INSERT INTO records (day, number, seq, kind, ord, bytes)
            VALUES (h.day, h.number, v_seq, v_kind, v_ord, v_record);
    END LOOP;
    h.current_index := h.iteration_count - 1;
    h.ord := v_ord;
    IF v_new AND p_exact AND h.iteration_count = 0 THEN
        RAISE EXCEPTION 'a session begins with its first iteration' USING ERRCODE = 'RT002';
    END IF;
    IF p_links IS NOT NULL THEN
        INSERT INTO links
            SELECT p_links[n * 4 + 1], p_links[n * 4 + 2], p_links[n * 4 + 3], h.day, h.number, p_links[n * 4 + 4]
            FROM generate_series(0, cardinality(p_links) / 4 - 1) AS n
            ON CONFLICT DO NOTHING;
    END IF;
    IF EXISTS (SELECT FROM unnest(p_keys) AS key WHERE length(key) <> 16) THEN
        RAISE EXCEPTION 'a key has 16 bytes' USING ERRCODE = 'RT002';
    END IF;
    IF p_exact THEN
        INSERT INTO keys VALUES (p_keys[1], h.day, h.number, p_key_seq[1], p_key_index[1]) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the key is known' USING ERRCODE = 'RT004';
        END IF;
    ELSE
        INSERT INTO keys
            SELECT key, h.day, h.number, seq, index
            FROM unnest(p_keys, p_key_seq, p_key_index) AS k (key, seq, index) ORDER BY key
            ON CONFLICT DO NOTHING;
    END IF;
    IF v_new THEN
        INSERT INTO heads SELECT h.*;
    ELSE
        UPDATE heads SET next_seq = h.next_seq, tip = h.tip, title = h.title, project = h.project,
            archived = h.archived, created = h.created, modified = h.modified,
            iteration_count = h.iteration_count, current_index = h.current_index, ord = h.ord
            WHERE day = h.day AND number = h.number;
    END IF;
    v_listed := (h.created IS NOT NULL)::integer - (before.created IS NOT NULL)::integer;
    v_archived := (h.created IS NOT NULL AND h.archived)::integer
        - (before.created IS NOT NULL AND before.archived)::integer;
    UPDATE counters SET sessions = sessions + v_listed, archived = archived + v_archived,
        events = events + cardinality(p_records)
        WHERE slot = pg_backend_pid() % 128;
    RETURN h;
END $$;

-- What an append came to:
--   appended   stored; the head is the one that the client sent, and not returned
--   repeated   the key is known; the head is that of its session, and `hit_index` the iteration it recorded
--   stale      the records build on another head than the one returned (for a new session: another last number)
--   missing    there is no such session
--   count      the session has another number of iterations than expected
CREATE TYPE append_result AS (outcome text, hit_index integer, head heads);

-- Appends one iteration without long texts and links to an existing session, as most appends do, with few statements
-- and scalar arguments. The rules are those of `store_records`, as conditions on the head; if one of them does not hold,
-- nothing is stored and the result is false, and `append` tells why. A known key violates the primary key of `keys`.
CREATE FUNCTION append_iteration(
    p_day integer, p_number integer, p_expected integer, p_record bytea, p_index integer, p_time bigint, p_key bytea
) RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    v_seq integer;
    v_ord bigint;
BEGIN
    IF NOT is_record_of(p_record, p_day, p_number) OR le_u16(p_record, 6) <> 2 OR length(p_key) <> 16 THEN
        RETURN false;
    END IF;
    v_seq := le_u32(p_record, 24);
    UPDATE heads SET next_seq = v_seq + 1, tip = substr(p_record, length(p_record) - 31, 32),
        modified = greatest(modified, p_time), iteration_count = p_index + 1, current_index = p_index,
        ord = greatest(pg_current_xact_id()::text::bigint + (SELECT ord_offset FROM settings), ord)
        WHERE day = p_day AND number = p_number AND next_seq = v_seq AND tip = substr(p_record, 37, 32)
            AND NOT archived AND created IS NOT NULL AND iteration_count = p_index
            AND (p_expected IS NULL OR p_expected = p_index)
        RETURNING ord INTO v_ord;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO records (day, number, seq, kind, ord, bytes) VALUES (p_day, p_number, v_seq, 2, v_ord, p_record);
    INSERT INTO keys VALUES (p_key, p_day, p_number, v_seq, p_index);
    UPDATE counters SET events = events + 1 WHERE slot = pg_backend_pid() % 128;
    RETURN true;
END $$;

-- Appends a batch in one round trip. `p_number` is the number of the session; with `p_new` it must be the next of its
-- day. Everything is checked under the lock of the session (or of the day), which is held to the commit.
--
-- A key that is known takes precedence over everything else. It is looked up only if something does not fit, or if there
-- are no records; otherwise its unique index finds it, and error RT004 sends the client to look it up.
CREATE FUNCTION append(
    p_day integer, p_number integer, p_new boolean, p_expected integer, p_records bytea[], p_index integer[],
    p_time bigint[], p_title bytea[], p_project bytea[], p_key bytea, p_key_seq integer, p_key_index integer,
    p_links integer[], p_text_hashes bytea[], p_texts bytea[]
) RETURNS append_result LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    h heads;
    hit keys;
    v_last integer;
    v_outcome text;
BEGIN
    IF p_new THEN
        v_last := lock_day(p_day);
        h := (p_day, v_last, 0, decode(repeat('00', 32), 'hex'), NULL, NULL, false, NULL, NULL, 0, -1, 0)::heads;
    ELSE
        SELECT * INTO h FROM heads WHERE day = p_day AND number = p_number FOR UPDATE;
    END IF;
    v_outcome := CASE
        WHEN h.day IS NULL THEN 'missing'
        WHEN cardinality(p_records) = 0 THEN 'stale'
        WHEN p_new AND p_number <> v_last + 1 THEN 'stale'
        WHEN p_expected IS NOT NULL AND p_expected <> h.iteration_count AND NOT p_new THEN 'count'
        WHEN le_u32(p_records[1], 24) <> h.next_seq OR substr(p_records[1], 37, 32) <> h.tip THEN 'stale'
    END;
    IF v_outcome IS NOT NULL THEN
        SELECT * INTO hit FROM keys WHERE key = p_key;
        IF NOT FOUND THEN
            RETURN (v_outcome, NULL, h)::append_result;
        END IF;
        -- The first commit is visible, but with a synchronous standby it may have given up waiting. A write of our own
        -- makes this answer wait for everything before it.
        PERFORM pg_logical_emit_message(true, 'retake', '');
        SELECT * INTO h FROM heads WHERE day = hit.day AND number = hit.number;
        RETURN ('repeated', hit.index, h)::append_result;
    END IF;
    IF p_new THEN
        h.number := p_number;
        UPDATE days SET last = p_number WHERE day = p_day;
    END IF;
    h := store_records(h, true, p_records, p_index, p_time, p_title, p_project, ARRAY[p_key], ARRAY[p_key_seq],
        ARRAY[p_key_index], p_links, p_text_hashes, p_texts);
    RETURN ('appended', p_key_index, NULL)::append_result;
END $$;

-- Stores records that another workspace wrote, on top of `p_next_seq`, which must be where the session stands: their
-- ids, times and hashes stay. Gaps that the chain names as lost are allowed; the caller has checked them.
CREATE FUNCTION import_records(
    p_day integer, p_number integer, p_next_seq integer, p_records bytea[], p_index integer[], p_time bigint[],
    p_title bytea[], p_project bytea[], p_keys bytea[], p_key_seq integer[], p_key_index integer[],
    p_links integer[], p_text_hashes bytea[], p_texts bytea[]
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    h heads;
BEGIN
    PERFORM lock_day(p_day);
    SELECT * INTO h FROM heads WHERE day = p_day AND number = p_number FOR UPDATE;
    IF h.day IS NULL THEN
        h := (p_day, p_number, 0, decode(repeat('00', 32), 'hex'), NULL, NULL, false, NULL, NULL, 0, -1, 0)::heads;
    END IF;
    IF h.next_seq <> p_next_seq THEN
        RETURN 'stale';
    END IF;
    UPDATE days SET last = greatest(last, p_number) WHERE day = p_day;
    PERFORM store_records(h, false, p_records, p_index, p_time, p_title, p_project, p_keys, p_key_seq, p_key_index,
        p_links, p_text_hashes, p_texts);
    RETURN 'imported';
END $$;

-- Stores a long text by itself, before an import whose records name it. The hash is checked by readers.
CREATE FUNCTION put_text(p_hash bytea, p_text bytea) RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER
    AS $$ INSERT INTO texts VALUES (p_hash, p_text) ON CONFLICT DO NOTHING $$;

-- Keeps `ord` growing after the workspace was restored into a cluster whose transaction ids start lower.
CREATE FUNCTION note_restore() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ UPDATE settings SET ord_offset = greatest(
        ord_offset, (SELECT coalesce(max(ord), 0) FROM records) + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
        RETURNING ord_offset $$;
