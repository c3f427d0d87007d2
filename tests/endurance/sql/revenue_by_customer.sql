CREATE MATERIALIZED VIEW revenue_by_customer (PRIMARY KEY (customer)) AS
SELECT customer, sum(amount) AS revenue, count(*) AS orders, max(amount) AS largest
FROM orders
GROUP BY customer;
