"""Views: from the text of a query to touched keys and rows."""
