WITH closed AS (
  SELECT id, seller, expires, max(price) AS final
  FROM auction JOIN bid ON auction.id = bid.auction AND bid.dateTime BETWEEN auction.dateTime AND expires
  GROUP BY ALL
)
SELECT seller, expires,
  avg(final) OVER (PARTITION BY seller ORDER BY expires ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS avg_price
FROM closed
