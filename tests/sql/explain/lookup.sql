CREATE SOURCE orders (id STRING, customer STRING, amount DOUBLE, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'files', 'path' = '/in');
CREATE TABLE customers (id STRING, country STRING)
WITH ('connector' = 'files', 'path' = '/customers', 'format' = 'csv', 'header' = 'true', 'refresh' = '10 minutes');
CREATE STREAM o AS
SELECT country, sum(amount) AS total
FROM orders LEFT JOIN customers ON orders.customer = customers.id
GROUP BY country, TUMBLE(ts, INTERVAL '1' MINUTE);
