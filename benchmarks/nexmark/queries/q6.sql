-- What the last ten auctions of each seller that have closed brought on average, whenever one more closes. The usual
-- text is a running average over winning bids that still change, which Flink cannot run. Here an auction counts when it
-- has closed: its bids are put into a window at its end. No auction lasts longer than a minute.
CREATE STREAM q6 AS
SELECT seller, expires,
  AVG(final) OVER (PARTITION BY seller ORDER BY rowtime ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS avg_price
FROM (
  SELECT id, seller, MAX(price) AS final, MAX(expires) AS expires
  FROM (
    SELECT A.id, A.seller, A.expires, B.price
    FROM auction A JOIN bid B ON A.id = B.auction
      AND B.dateTime BETWEEN A.dateTime AND A.dateTime + INTERVAL '1' MINUTE
    WHERE B.dateTime <= A.expires
  )
  GROUP BY id, seller, TUMBLE(expires, INTERVAL '1' MILLISECOND)
);
