CREATE SOURCE clicks (id STRING, ts BIGINT, user STRING, amount DOUBLE,
  EVENT TIME ts TYPE unixtimestamp_ms,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'files', 'path' = '/data/clicks', 'format' = 'json', 'max_future_skew' = '1 hour');

CREATE STREAM o WITH ('shards' = '8') AS
SELECT window_start, window_end, user, count(*) AS n, sum(amount) AS total
FROM clicks
WHERE amount > 0
GROUP BY user, TUMBLE(ts, INTERVAL '10' SECOND)
HAVING n > 1
EMIT ON WINDOW CLOSE ALLOW LATENESS INTERVAL '1' MINUTE LATE DATA TO late_clicks;
