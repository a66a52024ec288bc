-- How many bids of each person arrive within ten seconds by the clock.
CREATE STREAM q12 WITH ('eventtime.enabled' = 'false') AS
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
