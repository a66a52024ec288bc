-- Prices in euros instead of dollars.
CREATE STREAM q1 AS
SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid;
