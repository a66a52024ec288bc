CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)
WITH ('sla.class' = 'gold', 'sla.token_cost' = '2', 'sla.jitter_budget' = '1 minute');
CREATE STREAM o AS SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
