"""Test doubles for models and model servers; unexpected use is an error."""
