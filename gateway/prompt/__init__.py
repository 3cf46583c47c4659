"""Text -> tokens -> block hashes.

inference_request  what routing needs from a body: json_body, chat_prompt, messages, tools read it
unrendered         why a prompt cannot be known here
chat_template      messages -> text; content_format: how a template wants its content
tokenizer          text -> token ids; segment_cache for the slow one
tokenizer_finder   where a model's files are; tokenizer_files, tokenizer_hub
encoder            a request -> EncodedPrompt (encoded_prompt); remote_encoder asks a replica; encoders: one per model
blocks             token ids -> chained block hashes
"""
