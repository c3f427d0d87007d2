CREATE MATERIALIZED VIEW gold.best_product (
  city, product, pieces COMMENT 'How many sales', PRIMARY KEY (city)
)
COMMENT 'The product that each city buys most often'
AS SELECT city, product, n
FROM (
  SELECT city, product, count(*) AS n,
    row_number() OVER (PARTITION BY city ORDER BY count(*) DESC, product) AS place
  FROM silver.sales
  GROUP BY city, product
)
WHERE place = 1
