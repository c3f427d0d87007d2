CREATE MATERIALIZED VIEW revenue_by_city (PRIMARY KEY (city)) AS
SELECT city, sum(amount) AS revenue, count(*) AS orders
FROM orders_named
GROUP BY city;
