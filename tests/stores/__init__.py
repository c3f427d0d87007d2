"""Tables on an S3-compatible server: `make s3`."""
