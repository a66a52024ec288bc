-- What each seller's last auctions brought on average, after each of them. Flink cannot run it: the winning bid of an
-- auction changes as bids come in, and a running average would have to take the old one back.
CREATE STREAM q6 AS
SELECT op, Q.seller, Q.dateTime,
  AVG(Q.price) OVER (PARTITION BY Q.seller ORDER BY Q.dateTime ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS avg_price
FROM (
  SELECT seller, price, dateTime
  FROM (
    SELECT A.id, A.seller, B.price, B.dateTime,
      ROW_NUMBER() OVER (PARTITION BY A.id, A.seller ORDER BY B.price DESC, B.dateTime) AS rownum
    FROM auction AS A, bid AS B
    WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  )
  WHERE rownum <= 1
) AS Q
EMIT CHANGES;
