CREATE MATERIALIZED VIEW top_orders (PRIMARY KEY (id)) AS
SELECT id, customer, amount
FROM orders
ORDER BY amount DESC, id
LIMIT 10;
