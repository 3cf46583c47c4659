"""Kinds of generated traces: each module's ``make`` gives sessions, at least as many requests as are asked for.

growing_prompt, spread   what they are made of
conversation             chats with one assistant, as in Mooncake's conversation trace
documents                questions about long documents, as in Mooncake's synthetic trace
agentic                  coding agents that wait for their answers
hot_prefix               system prompts of unequal popularity, and new ones that come all at once; one may turn hot
mixed                    short chats among huge prompts that share nothing
"""
