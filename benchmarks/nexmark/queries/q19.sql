-- The ten highest bids of each auction.
CREATE STREAM q19 AS
SELECT op, * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
  FROM bid
)
WHERE rank_number <= 10
EMIT CHANGES;
