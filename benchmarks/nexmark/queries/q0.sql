-- Bids as they are: what it costs to read and to write.
CREATE STREAM q0 AS
SELECT auction, bidder, price, dateTime, extra FROM bid;
