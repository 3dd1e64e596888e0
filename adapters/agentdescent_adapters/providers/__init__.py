"""Language models behind one record each way: a Request goes out, a Reply or CallFailed comes back.

Nothing here is imported by `agentdescent_adapters`, and no client library by this module.
"""
