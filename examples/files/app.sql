-- Clicks from JSON files, counted per page and minute, into Parquet files. In this folder:
--   eventide run app.sql --once --flush
CREATE SOURCE clicks (
  id BIGINT, ts STRING, visitor STRING, page STRING,
  EVENT TIME ts TYPE iso8601,
  WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'files', 'path' = 'clicks', 'format' = 'json');

CREATE STREAM per_page AS
SELECT window_start, window_end, page, count(*) AS clicks, count(DISTINCT visitor) AS visitors
FROM clicks
WHERE page <> '/health'
GROUP BY page, TUMBLE(ts, INTERVAL '1' MINUTE);

CREATE SINK pages FROM per_page WITH ('connector' = 'files', 'path' = 'out/pages', 'format' = 'parquet');
