CREATE MATERIALIZED VIEW large_orders (PRIMARY KEY (id)) AS
SELECT id, customer, product, amount
FROM orders
WHERE amount >= 100;
