CREATE SOURCE orders (id STRING, amount DOUBLE, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE SOURCE payments (id STRING, paid DOUBLE, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1' MINUTE);
CREATE STREAM o AS
SELECT o.id, amount - coalesce(paid, 0) AS open, rowtime
FROM orders o LEFT JOIN payments p
ON o.id <=> p.id AND p.at BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE AND p.paid > 0 AND paid <= amount
WHERE amount > 10 AND amount - coalesce(paid, 0) > 1
ALLOW LATENESS INTERVAL '1' MINUTE LATE DATA TO late_rows;
