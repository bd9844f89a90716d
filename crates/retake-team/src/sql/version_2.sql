-- Version 2 of the schema: iterations of several batches are appended by one call.

-- Appends iterations of existing sessions as `append_iteration` does, in the order of the arrays, which have one element
-- an iteration. The caller sorts them by session, so that calls of two machines cannot deadlock; several for one
-- session build on each other. Returns the commit order of each, null if it was not stored.
--
-- Calls of `append_iteration` in one transaction would take the server nearly three times as many statements.
CREATE FUNCTION append_iterations(
    p_days integer[], p_numbers integer[], p_expected integer[], p_records bytea[], p_indexes integer[],
    p_times bigint[], p_keys bytea[]
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    v_transaction bigint := pg_current_xact_id()::text::bigint + (SELECT ord_offset FROM settings);
    v_record bytea;
    v_index integer;
    v_seq integer;
    v_ord bigint;
    v_seqs integer[] := '{}';
    v_ords bigint[] := '{}';
    v_count bigint;
BEGIN
    FOR i IN 1 .. cardinality(p_records) LOOP
        v_record := p_records[i];
        v_index := p_indexes[i];
        v_ord := NULL;
        IF is_record_of(v_record, p_days[i], p_numbers[i]) AND le_u16(v_record, 6) = 2 AND length(p_keys[i]) = 16 THEN
            v_seq := le_u32(v_record, 24);
            UPDATE heads SET next_seq = v_seq + 1, tip = substr(v_record, length(v_record) - 31, 32),
                modified = greatest(modified, p_times[i]), iteration_count = v_index + 1, current_index = v_index,
                ord = greatest(v_transaction, ord)
                WHERE day = p_days[i] AND number = p_numbers[i] AND next_seq = v_seq
                    AND tip = substr(v_record, 37, 32) AND NOT archived AND created IS NOT NULL
                    AND iteration_count = v_index AND (p_expected[i] IS NULL OR p_expected[i] = v_index)
                RETURNING ord INTO v_ord;
        END IF;
        v_seqs[i] := v_seq;
        v_ords[i] := v_ord;
    END LOOP;
    INSERT INTO records (day, number, seq, kind, ord, bytes)
        SELECT day, number, seq, 2, ord, bytes
        FROM unnest(p_days, p_numbers, v_seqs, v_ords, p_records) AS r (day, number, seq, ord, bytes)
        WHERE ord IS NOT NULL;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    INSERT INTO keys
        SELECT key, day, number, seq, index
        FROM unnest(p_keys, p_days, p_numbers, v_seqs, p_indexes, v_ords) AS k (key, day, number, seq, index, ord)
        WHERE ord IS NOT NULL;
    UPDATE counters SET events = events + v_count WHERE slot = pg_backend_pid() % 128;
    RETURN v_ords;
END $$;
