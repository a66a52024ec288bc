WITH counted AS (
  SELECT auction, count(*) AS num, starttime
  FROM (
    SELECT auction, unnest([time_bucket(INTERVAL '2 seconds', dateTime) - to_seconds(2 * back) for back in range(5)])
      AS starttime
    FROM bid
  )
  GROUP BY auction, starttime
)
SELECT auction, num, starttime, starttime + INTERVAL '10 seconds' AS endtime
FROM counted
QUALIFY num = max(num) OVER (PARTITION BY starttime)
