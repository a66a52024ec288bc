-- One stream of events, of which each is a person, an auction or a bid. $events is the folder with their files.
CREATE SOURCE nexmark (
  event_type INT,
  person STRUCT<id: BIGINT, name: STRING, emailAddress: STRING, creditCard: STRING, city: STRING, state: STRING,
    extra: STRING>,
  auction STRUCT<id: BIGINT, itemName: STRING, description: STRING, initialBid: BIGINT, reserve: BIGINT,
    expires: TIMESTAMP, seller: BIGINT, category: BIGINT, extra: STRING>,
  bid STRUCT<auction: BIGINT, bidder: BIGINT, price: BIGINT, channel: STRING, url: STRING, extra: STRING>,
  dateTime TIMESTAMP,
  WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH ('connector' = 'files', 'path' = '$events', 'format' = 'json', 'max_files_per_batch' = '$files_per_batch');

CREATE VIEW person AS
SELECT person.id, person.name, person.emailAddress, person.creditCard, person.city, person.state, dateTime, person.extra
FROM nexmark WHERE event_type = 0;

CREATE VIEW auction AS
SELECT auction.id, auction.itemName, auction.description, auction.initialBid, auction.reserve, dateTime,
  auction.expires, auction.seller, auction.category, auction.extra
FROM nexmark WHERE event_type = 1;

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, dateTime, bid.extra
FROM nexmark WHERE event_type = 2;
