WITH new AS (SELECT DISTINCT id, name, time_bucket(INTERVAL '10 seconds', dateTime) AS starttime FROM person),
  selling AS (SELECT DISTINCT seller, time_bucket(INTERVAL '10 seconds', dateTime) AS starttime FROM auction)
SELECT id, name, new.starttime FROM new JOIN selling ON id = seller AND new.starttime = selling.starttime
