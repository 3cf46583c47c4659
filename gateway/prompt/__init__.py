"""Text -> tokens -> block hashes.

inference_request  what routing needs from a body: json_body, chat_prompt, messages, tools read it
                   unusual_fields: where its prompt is another one than it looks like
                   text_prompts: texts and token ids; chat_form: a chat of another form's fields, which are
                   responses_prompt (items, tools), anthropic_prompt (blocks, tools), pooling_prompt
                   template_manners: what of these depends on the model's templates; template_trial finds it out
unrendered         why a prompt cannot be known here
chat_template      messages -> text; content_format: how a template wants its content
tokenizer          text -> token ids; segment_cache for the slow one
tokenizer_finder   where a model's files are; tokenizer_files, tokenizer_hub
beginning          what is certain of a prompt whose rest is unknown
encoder            a request -> EncodedPrompt (encoded_prompt); remote_encoder asks a replica; encoders: one per model
blocks             token ids -> chained block hashes
"""
