CREATE MATERIALIZED VIEW gold.revenue_by_product
TBLPROPERTIES ('lakehouse.key' = 'product')
AS SELECT product, count(*) AS items, coalesce(sum(revenue), 0) AS revenue
FROM silver.items
WHERE status = 'paid'
GROUP BY product
