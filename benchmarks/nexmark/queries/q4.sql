-- What the auctions of a category bring on average: the highest bid of each while it runs.
CREATE STREAM q4 AS
SELECT op, Q.category, AVG(Q.final) AS final
FROM (
  SELECT MAX(B.price) AS final, A.category
  FROM auction A, bid B
  WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  GROUP BY A.id, A.category
) Q
GROUP BY Q.category
EMIT CHANGES;
