CREATE MATERIALIZED VIEW gold.revenue_by_customer
TBLPROPERTIES ('lakehouse.key' = 'customer')
AS SELECT customer, count(*) AS items, coalesce(sum(revenue), 0) AS revenue
FROM silver.items
WHERE status = 'paid'
GROUP BY customer
