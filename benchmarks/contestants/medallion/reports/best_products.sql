CREATE MATERIALIZED VIEW reports.best_products
TBLPROPERTIES ('lakehouse.key' = 'category, place')
AS SELECT category, place, id, revenue
FROM (
  SELECT p.category, p.id, r.revenue,
    row_number() OVER (PARTITION BY p.category ORDER BY r.revenue DESC, p.id) AS place
  FROM silver.products p JOIN gold.revenue_by_product r ON r.product = p.id
)
WHERE place <= 10
