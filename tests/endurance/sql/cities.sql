CREATE MATERIALIZED VIEW cities (PRIMARY KEY (city)) AS
SELECT r.city AS city, r.revenue AS revenue, n.customers AS customers
FROM revenue_by_city r
LEFT JOIN (SELECT city, count(*) AS customers FROM customers GROUP BY city) n ON r.city = n.city;
