CREATE MATERIALIZED VIEW orders_named (PRIMARY KEY (id)) AS
SELECT o.id AS id, o.product AS product, o.amount AS amount, coalesce(c.city, 'nowhere') AS city, c.tier AS tier
FROM orders o
JOIN customers c ON o.customer = c.id;
