CREATE MATERIALIZED VIEW latest_events (PRIMARY KEY (order_id)) AS
SELECT order_id, id, kind, points
FROM (
  SELECT order_id, id, kind, points, row_number() OVER (PARTITION BY order_id ORDER BY id DESC) AS place
  FROM events
) numbered
WHERE place = 1;
