WITH best AS (
  SELECT time_bucket(INTERVAL '10 seconds', dateTime) AS starttime, max(price) AS maxprice FROM bid GROUP BY 1
)
SELECT auction, price, bidder, dateTime, extra
FROM bid JOIN best ON price = maxprice AND dateTime BETWEEN starttime AND starttime + INTERVAL '10 seconds'
