CREATE MATERIALIZED VIEW orders_without_events (PRIMARY KEY (id)) AS
SELECT o.id AS id, o.amount AS amount
FROM large_orders o
WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.order_id = o.id);
