"""The key of LiteLLM's proxy. Without a database, keys come from a function like this one."""

import os

from litellm.proxy._types import UserAPIKeyAuth


async def authenticate(request: object, api_key: str) -> UserAPIKeyAuth:
    budget = float(os.environ["RACE_BUDGET"])
    if os.environ["RACE_KIND"] == "model":
        limit = {"budget_limit": budget, "time_period": "30d"}
        return UserAPIKeyAuth(api_key=api_key, model_max_budget={os.environ["RACE_MODEL"]: limit})
    return UserAPIKeyAuth(api_key=api_key, max_budget=budget, spend=0.0)
