"""Fixtures of the HTTP tests: the shared server, and clients for it."""
import httpx
import openai
import pytest


@pytest.fixture
def http(tandem_server):
    with httpx.Client(base_url=tandem_server.url, timeout=60) as client:
        yield client


@pytest.fixture
def client(tandem_server):
    return openai.OpenAI(base_url=tandem_server.url + "/v1", api_key="any", max_retries=0)
