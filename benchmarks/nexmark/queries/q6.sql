-- What the last auctions of each seller brought on average: a running average over winning bids that still change.
CREATE STREAM q6 AS
SELECT op, Q.seller, AVG(Q.price) OVER (PARTITION BY Q.seller ORDER BY Q.dateTime
  ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS avg_price
FROM (
  SELECT seller, price, dateTime
  FROM (
    SELECT A.id, A.seller, B.price, B.dateTime,
      ROW_NUMBER() OVER (PARTITION BY A.id, A.seller ORDER BY B.price DESC, B.dateTime ASC) AS rownum
    FROM auction A, bid B
    WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  )
  WHERE rownum <= 1
) Q
EMIT CHANGES;
