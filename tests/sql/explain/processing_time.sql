CREATE SOURCE a (k STRING);
CREATE STREAM o AS SELECT k, count(*) AS n FROM a GROUP BY k, tumblingwindow('mi', 1);
