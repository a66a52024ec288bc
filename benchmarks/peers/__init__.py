"""Other engines, one script each: most of them cannot be installed alongside Spark 4.3, so another interpreter runs
them.
"""
