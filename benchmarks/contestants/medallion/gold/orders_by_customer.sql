CREATE MATERIALIZED VIEW gold.orders_by_customer
TBLPROPERTIES ('lakehouse.key' = 'customer')
AS SELECT customer, min(day) AS first_day, max(day) AS last_day, count(*) AS orders
FROM silver.orders
GROUP BY customer
