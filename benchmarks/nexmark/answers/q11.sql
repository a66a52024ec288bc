WITH marked AS (
  SELECT *, coalesce(dateTime - lag(dateTime) OVER own > INTERVAL '10 seconds', true) AS is_first
  FROM bid WINDOW own AS (PARTITION BY bidder ORDER BY dateTime)
), numbered AS (
  SELECT *, count(*) FILTER (is_first) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM marked
)
SELECT bidder, count(*) AS bid_count, min(dateTime) AS starttime, max(dateTime) + INTERVAL '10 seconds' AS endtime
FROM numbered GROUP BY bidder, session
