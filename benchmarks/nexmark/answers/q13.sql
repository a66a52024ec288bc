SELECT auction, bidder, price, dateTime, value FROM bid JOIN side_input ON auction % 10000 = key
