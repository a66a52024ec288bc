-- How often somebody bids without a pause of more than ten seconds.
CREATE STREAM q11 AS
SELECT B.bidder, count(*) AS bid_count,
  SESSION_START(B.dateTime, INTERVAL '10' SECOND) AS starttime, SESSION_END(B.dateTime, INTERVAL '10' SECOND) AS endtime
FROM bid B
GROUP BY B.bidder, SESSION(B.dateTime, INTERVAL '10' SECOND);
