-- Bids with what a table says about their auction. $side_input is the folder with the table's file.
CREATE TABLE side_input (key BIGINT, `value` STRING)
WITH ('connector' = 'files', 'path' = '$side_input', 'format' = 'csv');

CREATE STREAM q13 AS
SELECT B.auction, B.bidder, B.price, B.dateTime, S.`value`
FROM bid B JOIN side_input AS S ON MOD(B.auction, 10000) = S.key;
