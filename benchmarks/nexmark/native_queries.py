"""The queries that Structured Streaming can run, as its users write them.

It cannot run the others: q4, q6 and q9 aggregate or rank what a join gives, without a window; q15 and q16 count
distinct values; q18 and q19 rank rows without a window; windows by the clock (q12) need a column that says when a row
arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as F

_SCHEMA = """
  event_type INT,
  person STRUCT<id: BIGINT, name: STRING, emailAddress: STRING, creditCard: STRING, city: STRING, state: STRING,
    extra: STRING>,
  auction STRUCT<id: BIGINT, itemName: STRING, description: STRING, initialBid: BIGINT, reserve: BIGINT,
    expires: TIMESTAMP, seller: BIGINT, category: BIGINT, extra: STRING>,
  bid STRUCT<auction: BIGINT, bidder: BIGINT, price: BIGINT, channel: STRING, url: STRING, extra: STRING>,
  dateTime TIMESTAMP
"""
_DAY = "date_format(dateTime, 'yyyy-MM-dd')"


class Views:
    def __init__(self, session: SparkSession, watched: Path, files_per_batch: int, side_input: Path) -> None:
        reader = session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", str(files_per_batch))
        self._session, self._side_input = session, side_input
        self._events = reader.json(str(watched)).withWatermark("dateTime", "4 seconds")

    @property
    def person(self) -> DataFrame:
        return self._events.where("event_type = 0").selectExpr("person.*", "dateTime")

    @property
    def auction(self) -> DataFrame:
        return self._events.where("event_type = 1").selectExpr("auction.*", "dateTime")

    @property
    def bid(self) -> DataFrame:
        return self._events.where("event_type = 2").selectExpr("bid.*", "dateTime")

    @property
    def side_input(self) -> DataFrame:
        return self._session.read.schema("key BIGINT, value STRING").csv(str(self._side_input))


def q0(views: Views) -> DataFrame:
    return views.bid.select("auction", "bidder", "price", "dateTime", "extra")


def q1(views: Views) -> DataFrame:
    return views.bid.selectExpr("auction", "bidder", "0.908 * price AS price", "dateTime", "extra")


def q2(views: Views) -> DataFrame:
    return views.bid.where("mod(auction, 123) = 0").select("auction", "price")


def q3(views: Views) -> DataFrame:
    seller = views.person.where("state IN ('OR', 'ID', 'CA')").withColumnRenamed("id", "person")
    sold = views.auction.where("category = 10").select("id", "seller")
    return sold.join(seller, F.expr("seller = person")).select("name", "city", "state", "id")


def q5(views: Views) -> DataFrame:
    counted = views.bid.groupBy("auction", F.window("dateTime", "10 seconds", "2 seconds")).agg(
        F.count("*").alias("num")
    )
    last = F.window(F.window_time("window"), "2 seconds")  # hopping windows that end together are one of these
    most = counted.groupBy(last.alias("last")).agg(F.max("num").alias("maxn"))
    found = counted.join(most, F.expr("window.end = last.end AND num >= maxn"))
    return found.selectExpr("auction", "num", "window.start AS starttime", "window.end AS endtime")


def q7(views: Views) -> DataFrame:
    highest = views.bid.groupBy(F.window("dateTime", "10 seconds")).agg(F.max("price").alias("maxprice"))
    highest = highest.selectExpr("window_time(window) AS closed", "maxprice")
    near = F.expr("price = maxprice AND dateTime BETWEEN closed - INTERVAL '10' SECOND AND closed")
    return views.bid.join(highest, near).select("auction", "price", "bidder", "dateTime", "extra")


def q8(views: Views) -> DataFrame:
    window = F.window("dateTime", "10 seconds")
    new = views.person.groupBy("id", "name", window).agg(F.count("*").alias("n"))
    selling = views.auction.groupBy("seller", window).agg(F.count("*").alias("m"))
    selling = selling.withColumnRenamed("window", "selling_window")
    found = new.join(selling, F.expr("id = seller AND window = selling_window"))
    return found.selectExpr("id", "name", "window.start AS starttime")


def q10(views: Views) -> DataFrame:
    return views.bid.selectExpr(
        "auction", "bidder", "price", "dateTime", "extra", f"{_DAY} AS dt", "date_format(dateTime, 'HH:mm') AS hm"
    )


def q11(views: Views) -> DataFrame:
    counted = views.bid.groupBy("bidder", F.session_window("dateTime", "10 seconds")).agg(F.count("*").alias("n"))
    return counted.selectExpr(
        "bidder", "n AS bid_count", "session_window.start AS starttime", "session_window.end AS endtime"
    )


def q13(views: Views) -> DataFrame:
    found = views.bid.join(views.side_input, F.expr("mod(auction, 10000) = key"))
    return found.select("auction", "bidder", "price", "dateTime", "value")


def q14(views: Views) -> DataFrame:
    chosen = views.bid.where("0.908 * price > 1000000 AND 0.908 * price < 50000000")
    kind = (
        "CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' "
        "WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType"
    )
    letters = "length(extra) - length(replace(extra, 'c', '')) AS c_counts"
    return chosen.selectExpr("auction", "bidder", "0.908 * price AS price", kind, "dateTime", "extra", letters)


def q17(views: Views) -> DataFrame:
    return views.bid.groupBy("auction", F.expr(_DAY).alias("day")).agg(
        F.expr("count(*) AS total_bids"),
        F.expr("count(*) FILTER (WHERE price < 10000) AS rank1_bids"),
        F.expr("count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids"),
        F.expr("count(*) FILTER (WHERE price >= 1000000) AS rank3_bids"),
        F.expr("min(price) AS min_price"),
        F.expr("max(price) AS max_price"),
        F.expr("avg(price) AS avg_price"),
        F.expr("sum(price) AS sum_price"),
    )


def q20(views: Views) -> DataFrame:
    sold = views.auction.where("category = 10").withColumnsRenamed(
        {"dateTime": "auction_dateTime", "extra": "auction_extra"}
    )
    bids = views.bid.withColumnsRenamed({"dateTime": "bid_dateTime", "extra": "bid_extra"})
    return bids.join(sold, F.expr("auction = id")).drop("id")


def q21(views: Views) -> DataFrame:
    number = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
    big = {"apple": 0, "google": 1, "facebook": 2, "baidu": 3}
    own = "CASE lower(channel) " + " ".join(f"WHEN '{name}' THEN '{place}'" for name, place in big.items())
    known = views.bid.where(f"{number} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')")
    return known.selectExpr("auction", "bidder", "price", "channel", f"{own} ELSE {number} END AS channel_id")


def q22(views: Views) -> DataFrame:
    folders = (f"split_part(url, '/', {place + 3}) AS dir{place}" for place in (1, 2, 3))
    return views.bid.selectExpr("auction", "bidder", "price", "channel", *folders)


QUERIES: dict[str, Callable[[Views], DataFrame]] = {
    query.__name__: query for query in (q0, q1, q2, q3, q5, q7, q8, q10, q11, q13, q14, q17, q20, q21, q22)
}
MODES = {"q17": "update"}  # all others append
