CREATE MATERIALIZED VIEW reports.conversion
TBLPROPERTIES ('lakehouse.key' = 'id')
AS SELECT p.id, p.name, p.category, v.visits, r.revenue
FROM silver.products p
LEFT JOIN gold.visits_by_product v ON v.product = p.id
LEFT JOIN gold.revenue_by_product r ON r.product = p.id
