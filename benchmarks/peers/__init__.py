"""Other engines, each a script of its own: most of them cannot be installed beside Spark 4.3, so another interpreter
runs them.
"""
