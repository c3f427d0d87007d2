CREATE MATERIALIZED VIEW gold.visits_by_product
TBLPROPERTIES ('lakehouse.key' = 'product')
AS SELECT product, count(*) AS visits
FROM silver.visits
GROUP BY product
