CREATE SOURCE a WITH ('connector' = 'rate', 'rows_per_second' = '5');
CREATE STREAM o AS SELECT value * 2 AS twice, timestamp FROM a WHERE value % 2 = 0;
