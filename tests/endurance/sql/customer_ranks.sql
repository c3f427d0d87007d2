CREATE MATERIALIZED VIEW customer_ranks (PRIMARY KEY (id)) AS
SELECT c.id AS id, c.city AS city, r.revenue AS revenue,
  rank() OVER (PARTITION BY c.city ORDER BY r.revenue DESC) AS place
FROM customers c
JOIN revenue_by_customer r ON c.id = r.customer;
